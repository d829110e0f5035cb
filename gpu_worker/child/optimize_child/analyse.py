"""The entry that measures a dataset: decides what has to be imported for it, before anything is."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from optimize_child.failures import JobFailure

if TYPE_CHECKING:
    from optimize_child.job import Job

FORMATS = ("chat-jsonl-v1", "preference-jsonl-v1")


def run(job: Job) -> None:
    """The whole of one attempt, from its plan to its report. Raises JobFailure for rows that need no measuring."""
    dataset = job.plan["dataset"]
    format_ = dataset.get("format", FORMATS[0])
    if format_ not in FORMATS:
        raise JobFailure(
            "data_error",
            f"The dataset's rows are {format_}, and an analysis measures chat rows and preference pairs.",
            hint="Prepared token rows carry their lengths: see the dataset's page.",
        )
    if not dataset.get("images"):
        do_without_torch()
    import_module("optimize_child.analysis.whole").Analysis(job).run()


def do_without_torch() -> None:
    """Let transformers find no torch, unless this process has it already: a tokenizer needs none, and importing it
    takes longer than measuring a small dataset."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.modules.setdefault("torch", None)  # type: ignore[call-overload]
