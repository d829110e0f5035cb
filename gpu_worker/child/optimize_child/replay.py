"""A stretch of a run's updates once more: from the save it began with to the save it ended with, for its bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from optimize_child import dpo, sft
from optimize_child.failures import Stopped
from optimize_child.job import Job

RUNS: dict[str, type[sft.Run]] = {"sft": sft.Run, "dpo": dpo.PreferenceRun}


def run(job: Job) -> None:
    """The entry `replay`: a run's plan that goes on from the first save and ends, or pauses, at the second.

    The last event reports the SHA-256 of each file of the save that came of it, and each update's loss.
    """
    losses = Losses(job)
    again = RUNS[job.plan["config"]["method"]](job)
    try:
        sft.follow(again)
    except Stopped as stopped:
        if stopped.reason != "pause":
            raise
    step = again.trainer.state.global_step
    files = _digests(job.folder / "snapshots" / f"step-{step}")
    job.events.emit("finished", report={"step": step, "files": files, "losses": losses.found}, sync=True)


class Losses:
    """Listens to what the run says and keeps each update's loss."""

    def __init__(self, job: Job) -> None:
        self.found: dict[str, float] = {}
        self._emit = job.events.emit
        job.events.emit = self._hear  # type: ignore[method-assign]

    def _hear(self, type_: str, /, **fields: Any) -> None:
        if type_ == "metrics":
            self.found[str(fields["step"])] = fields["values"]["loss"]
        self._emit(type_, **fields)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
