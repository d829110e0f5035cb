"""Scoring answers that are there already: hands them to the scorer process and tells each verdict as it is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optimize_child.job import Job
from optimize_child.scorer_process import ScorerProcess


def run(job: Job) -> None:
    """Every item of the plan's file, in its order. Raises JobFailure where nothing can be scored."""
    items = [json.loads(line) for line in Path(job.plan["items"]).read_bytes().splitlines()]
    log, leave = job.folder / "scorer.log", job.leave_if_asked
    scorer = ScorerProcess(job.plan["scorer"], log, leave_if_asked=leave, scored_by="grader")
    try:
        job.stage("starting the grader")
        scorer.start()
        for done, some in _batches(items, job.plan["batch"]):
            job.stage("scoring", done, len(items))
            job.leave_if_asked()
            _score(job, scorer, some)
    finally:
        scorer.close()
    job.stage("scoring", len(items), len(items))
    job.events.emit("finished", answers=len(items), sync=True)


def _batches(items: list[dict[str, Any]], size: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    yield from ((start, items[start : start + size]) for start in range(0, len(items), size))


def _score(job: Job, scorer: ScorerProcess, items: list[dict[str, Any]]) -> None:
    (term,) = scorer.ask(items)
    for item, verdict in zip(items, term["verdicts"], strict=True):
        job.events.emit(
            "scored",
            position=item["row"],
            score=verdict["score"],
            is_exact=verdict["isExact"],
            fields=verdict["fields"],
            explanation=verdict["explanation"],
            cause=verdict["cause"],
        )
