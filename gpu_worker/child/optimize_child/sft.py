"""The entry of supervised fine-tuning, and of a smoke check of it."""

from __future__ import annotations

from optimize_child.job import Job
from optimize_child.training.supervised import Run, follow


def run(job: Job) -> None:
    """The whole of one attempt, from its plan to its last event."""
    follow(_run_of(job))


def _run_of(job: Job) -> Run:
    if not job.plan.get("smoke"):
        return Run(job)
    # No other run waits for what reading answers imports.
    from optimize_child.smoke import SmokeRun

    return SmokeRun(job)
