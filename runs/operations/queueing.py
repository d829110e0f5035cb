"""The order in which waiting runs get their devices."""

from datetime import datetime, timedelta

from django.db import transaction

from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import Actor
from runs import queries
from runs.errors import RunNotWaiting
from runs.models import Run

WAITING = "AWAITING_CAPACITY"


@transaction.atomic
def prioritize_run(run: Run, *, behind: Run | None = None, actor: Actor) -> Run:
    """Put a waiting run in front of all others of its profile, or right behind another one.

    Raises RunNotWaiting where either is not waiting for a device.
    """
    actor.require("operator")
    locked = list(Run.objects.select_for_update().filter(phase=WAITING).order_by("queued_at"))
    row = _waiting(run, locked)
    queue = [other for other in locked if other.execution["deviceProfile"] == row.execution["deviceProfile"]
             and other.pk != row.pk]
    place = queue.index(_waiting(behind, queue)) + 1 if behind is not None else 0
    row.queued_at = _between(queue[place - 1] if place else None, queue[place] if place < len(queue) else None)
    row.save(update_fields=["queued_at"])
    events.record(queries.KIND, row.pk, "run.prioritized", actor=actor, data={"place": place + 1})
    doorbell.ring_devices()
    return row


def _waiting(run: Run, rows: list[Run]) -> Run:
    found = next((row for row in rows if row.pk == run.pk), None)
    if found is None:
        phase = Run.objects.values_list("phase", flat=True).get(pk=run.pk)
        raise RunNotWaiting(_no_place(run, phase), phase=phase)
    return found


def _no_place(run: Run, phase: str) -> str:
    return f"The run {run.pk[:12]} is {phase}; only runs that wait for the same kind of device have an order."


def why_not_prioritize(run: Run) -> str:
    """Why the run cannot be put in front of the others now; empty where it can."""
    return "" if run.phase == WAITING else _no_place(run, run.phase)


def _between(before: Run | None, after: Run | None) -> datetime:
    """A time in the queue between two runs."""
    if before is None:
        first = after.queued_at if after is not None and after.queued_at else clock.now()
        return first - timedelta(milliseconds=1)
    assert before.queued_at is not None  # noqa: S101 - a waiting run has a place
    if after is None or after.queued_at is None:
        return before.queued_at + timedelta(milliseconds=1)
    return before.queued_at + (after.queued_at - before.queued_at) / 2
