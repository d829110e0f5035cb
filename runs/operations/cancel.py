"""Cancelling: a request on the run, carried out by whoever holds it."""

from django.db import transaction

from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import Actor
from runs.errors import RunEnded, TooLateToCancel
from runs.models import Run
from runs.operations.advance import advance_run
from runs.phases import BEFORE_A_JOB, PHASES


def cancel_run(run: Run, *, actor: Actor) -> Run:
    """Ask a run to end. Asked again while it is ending, it changes nothing. Committed snapshots stay.

    Raises RunEnded where it is over, TooLateToCancel where its model is being recorded.
    """
    actor.require("operator")
    with transaction.atomic():
        locked = Run.objects.select_for_update().get(pk=run.pk)
        _refuse_ended(locked)
        if locked.cancel_requested_at is None:
            Run.objects.filter(pk=run.pk).update(cancel_requested_at=clock.now())
            events.record("run", run.pk, "run.cancel_requested", actor=actor, data={"phase": locked.phase})
            doorbell.ring_control()
    if locked.phase in BEFORE_A_JOB:
        advance_run(run.pk)
    run.refresh_from_db()
    return run


def _refuse_ended(run: Run) -> None:
    if run.phase in PHASES.terminal:
        raise RunEnded(f"The run {run.pk[:12]} is {run.phase}; there is nothing to cancel.", phase=run.phase)
    if run.cancel_requested_at is None and run.phase in {"RECORDING", "CLEANING_UP"}:
        raise TooLateToCancel(f"The run {run.pk[:12]} is {run.phase}; its work is done.", phase=run.phase,
                              hint="It ends by itself in a moment.")
