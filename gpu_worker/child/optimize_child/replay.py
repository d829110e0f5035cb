"""A stretch of a run's updates once more: from the save it began with to the save it ended with, for its bytes."""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any

from optimize_child.failures import Stopped
from optimize_child.job import Job
from optimize_child.training import supervised

RUNS = {"sft": ("training.supervised", "Run"), "dpo": ("dpo", "PreferenceRun"), "grpo": ("rl", "ReinforcementRun"),
        "gspo": ("rl", "ReinforcementRun")}  # fmt: skip
"""The module and the class of each method's attempt: no other method's is imported."""
COMPARED = ("loss", "reward")


def run(job: Job) -> None:
    """The entry `replay`: a run's plan that goes on from the first save and ends, or pauses, at the second.

    The last event reports the SHA-256 of each file of the save that came of it, and each update's loss and reward.
    """
    figures = Figures(job)
    _score_beside(job)
    module, name = RUNS[job.plan["config"]["method"]]
    again = getattr(import_module(f"optimize_child.{module}"), name)(job)
    try:
        supervised.follow(again)
    except Stopped as stopped:
        if stopped.reason != "pause":
            raise
    step = again.trainer.state.global_step
    files = _digests(job.folder / "snapshots" / f"step-{step}")
    job.events.emit("finished", report={"step": step, "files": files, "figures": figures.found}, sync=True)


class Figures:
    """Listens to what the run says and keeps of each update what is compared."""

    def __init__(self, job: Job) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._emit = job.events.emit
        job.events.emit = self._hear  # type: ignore[method-assign]

    def _hear(self, type_: str, /, **fields: Any) -> None:
        if type_ == "metrics":
            values = fields["values"]
            self.found[str(fields["step"])] = {name: values[name] for name in COMPARED if name in values}
        self._emit(type_, **fields)


def _score_beside(job: Job) -> None:
    """What scores gets a folder of this job's for its scratch files; that of the run's own job is not touched."""
    if job.plan.get("scorer"):
        scratch = job.folder / "scoring"
        scratch.mkdir()
        job.plan["scorer"]["spec"]["scratch"] = str(scratch)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
