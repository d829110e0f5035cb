"""A smoke check's verdict: stored as its job gives it, and for a check that came to no end, told from how it ended."""

from collections.abc import Mapping
from typing import Any

from optimize_site.kernel.text import UNUSABLE
from runs.models import MissedRow, Run
from runs.smoke import DATA_CODES, JUDGED

COUNTS = ("verdict", "score", "rows", "scored", "reproduced", "toolAnswers", "memorised", "step")


def record_missed(run: Run, attempt: int, event: Mapping[str, Any]) -> None:
    """Keep a row that was not reproduced; told again, by the same attempt or a later one, it is the same row."""
    MissedRow.objects.update_or_create(run=run, position=event["position"], defaults={
        "attempt": attempt, "prompt": event["prompt"], "expected": event["expected"],
        "answer": UNUSABLE.sub("\N{REPLACEMENT CHARACTER}", event["answer"]), "finish": event["finish"]})


def verdict_columns(run: Run, attempt: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """The run's `smoke` with a verdict. Rows that an earlier attempt missed are of no judgement any more."""
    run.missed.exclude(attempt=attempt).delete()
    return {"smoke": (run.smoke or {}) | {name: event[name] for name in COUNTS}}


def judgement_of(run: Run) -> str | None:
    """The verdict of a smoke check that came to its end, which is all it was for; None for any other run."""
    verdict = None if run.smoke is None or run.failure_code else run.smoke.get("verdict")
    return verdict if verdict in JUDGED else None


def unjudged_columns(run: Run) -> dict[str, Any]:
    """The verdict of a smoke check that ends without one; nothing for any other run."""
    if run.smoke is None or run.smoke.get("verdict"):
        return {}
    return {"smoke": run.smoke | {"verdict": "data_error" if run.failure_code in DATA_CODES else "stopped"}}
