"""One analysis: the dataset cut into stretches, measured by several processes, merged into the report.

What is measured of each stretch stays in the plan's `out` folder until the report is there, so that a job which was
killed or stopped goes on where it was. There the file of every row's lengths stays.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from transformers.utils import logging as transformers_logging

from optimize_child.analysis.chunks import cut, lines_of
from optimize_child.analysis.measuring import ImageCounter, Measurer
from optimize_child.analysis.partials import Store
from optimize_child.analysis.report import LENGTHS, Merged
from optimize_child.analysis.workers import share_out
from optimize_child.code import code_version
from optimize_child.failures import Stopped
from optimize_child.job import Job
from optimize_child.rendering.tokenizer import load_template, load_tokenizer

PARTS = "parts"
TOLD_SECONDS = 0.5


class Analysis:
    """One attempt at measuring a dataset."""

    def __init__(self, job: Job) -> None:
        transformers_logging.set_verbosity_error()
        self.job, self.plan, self.dataset = job, job.plan, job.plan["dataset"]
        job.stage("reading")
        self.base = Path(self.plan["base_model"]["folder"])
        self.out = Path(self.plan["out"])
        self.template = load_template(self.plan["base_model"], load_tokenizer(self.base))
        self.format: str = self.dataset.get("format", "chat-jsonl-v1")
        self.measurer = Measurer(self.template, self.format, self._images())
        self.files = [Path(file) for file in self.dataset["files"]]
        self.chunks = cut(self.files)
        self.store = Store(self.out / PARTS, self._identity())
        self.pid = os.getpid()
        self.rows = 0
        self.told = 0.0

    def run(self) -> None:
        """Measure what is not measured yet, put it together, and say it."""
        self._measure()
        report = self._report()
        self.job.events.emit("finished", report=report, sync=True)
        self.store.discard()

    def _images(self) -> ImageCounter | None:
        if not self.dataset.get("images"):
            return None
        from optimize_child.reading.images import ImageReader

        return ImageReader(self.base, self.template, self.dataset["images"])

    def _identity(self) -> dict[str, Any]:
        """What partial results are of: those of anything else are not gone on with."""
        return {
            "dataset": self.dataset.get("content_hash"),
            "files": [list(chunk) for chunk in self.chunks],
            "revision": self.plan["base_model"]["revision"],
            "template": self.template.sha256,
            "code": code_version(),
        }

    # -- measuring ----------------------------------------------------------------------------------------------------

    def _measure(self) -> None:
        missing = [chunk.number for chunk in self.chunks if not self.store.has(chunk.number)]
        kept = {chunk.number for chunk in self.chunks}.difference(missing)
        self.rows = sum(self.store.facts(number)["rows"] for number in kept)
        self._tell()
        with _set_aside():
            share_out(missing, self._measure_chunk, self.plan["processes"], self._after)
        self._tell()

    def _measure_chunk(self, number: int) -> None:
        """In whichever process: measure a stretch and put the result in place."""
        chunk = self.chunks[number]
        partial = self.measurer.measure(lines_of(self.files[chunk.file], chunk), self._during)
        self.store.write(number, partial)

    def _during(self, rows: int) -> None:
        """Between two batches of a stretch. Another process than the job's ends when that one is gone."""
        if os.getpid() == self.pid:
            self.job.leave_if_asked()
            self._tell_now_and_then(self.rows + rows)
        elif os.getppid() != self.pid:
            raise Stopped("orphaned")

    def _after(self, number: int | None) -> None:
        """When a stretch is done, or nothing was for a while."""
        self.job.leave_if_asked()
        if number is not None:
            self.rows += self.store.facts(number)["rows"]
        self._tell_now_and_then(self.rows)

    def _tell_now_and_then(self, rows: int) -> None:
        if monotonic() - self.told >= TOLD_SECONDS:
            self._tell(rows)

    def _tell(self, rows: int | None = None) -> None:
        self.told = monotonic()
        done = self.rows if rows is None else rows
        self.job.events.emit("stage", name="measuring", done=done, total=self.dataset.get("num_examples"), unit="rows")

    # -- the report ---------------------------------------------------------------------------------------------------

    def _report(self) -> dict[str, Any]:
        merged = Merged(self.store, self.chunks, len(self.files))
        merged.refuse_bad_rows()
        totals = merged.write_rows(self.out / LENGTHS)
        self.job.stage("comparing")
        base = self.plan["base_model"]
        return {
            "tokenizer": {"repository": base["repository"], "revision": base["revision"]},
            "chatTemplateSha256": self.template.sha256,
            "templateOrigin": self.plan.get("template_origin", "shipped"),
            "productVersion": self.plan["product_version"],
            "format": self.format,
            "rows": totals.rows,
            "lengths": totals.lengths(),
            "limits": totals.limits(),
            "longestRows": totals.longest_rows(merged.place),
            "suggestedMaxSeqLength": totals.suggested(self._context_length()),
            **totals.sums(),
            "histogram": totals.histogram(),
            **merged.findings(),
            "duplicates": merged.repeats(self.job.leave_if_asked),
        }

    def _context_length(self) -> int | None:
        """The positions the model was made for, as its configuration states them."""
        config = json.loads((self.base / "config.json").read_bytes())
        text = config.get("text_config") or config
        found = text.get("max_position_embeddings")
        return found if isinstance(found, int) and found > 0 else None


@contextmanager
def _set_aside() -> Iterator[None]:
    """What is loaded by now is left out of garbage collections: rows come and go by the thousand, and each full
    collection would walk all of the libraries, in every process. What of it is garbage already waits until the end:
    looking for that takes as long as some hundred rows."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
