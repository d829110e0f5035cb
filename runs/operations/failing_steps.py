"""Control steps that raise: tried again with each look, and after some tries the run's end, saying what failed."""

from django.db import transaction

from optimize_site.kernel import events
from optimize_site.kernel.auth import SYSTEM
from runs import queries
from runs.models import Run
from runs.operations.ending import fail_run

TRIES = 10
COULD_NOT = {
    "RESOLVING_DATASET": "dataset could not be read",
    "AWAITING_BASE_MODEL": "base model could not be taken",
    "AWAITING_CAPACITY": "wait for a device could not be looked after",
    "RECORDING": "adapter could not be registered",
    "CLEANING_UP": "end could not be recorded",
}
SAVED = "Its saves are kept: `./optimize runs snapshots RUN` lists them, and `snapshots register` makes a model of one."


@transaction.atomic
def note_failed_step(run_id: str, error: Exception) -> None:
    """Write down that a step of the run raised; the last of its tries in this phase fails the run."""
    run = Run.objects.select_for_update().get(pk=run_id)
    what = COULD_NOT.get(run.phase)
    tries = _tries_in_phase(run) + 1
    if what is None or tries > TRIES:
        return
    said = f"{type(error).__name__}: {error}"[:500]
    events.record(queries.KIND, run.pk, "run.step_failed", actor=SYSTEM, reason=f"This run's {what}: {said}",
                  data={"phase": run.phase, "try": tries})
    if tries == TRIES and run.phase != "CLEANING_UP":
        fail_run(run, code="step_failed", reason=f"This run's {what}, in {TRIES} tries: {said}",
                 hint=SAVED if run.phase == "RECORDING" else "Start it again once that is mended; `./optimize status` "
                 "and the log of the control service say more.", evidence={"phase": run.phase, "error": said})


def _tries_in_phase(run: Run) -> int:
    return queries.events_of(run).filter(type="run.step_failed", at__gte=run.phase_since,
                                         data__phase=run.phase).count()
