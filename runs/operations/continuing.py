"""Going on with a run's training: a branch that keeps the training state of a save, the newest unless one is named."""

from collections.abc import Mapping
from typing import Any

from runs import queries
from runs.errors import NoTrainingState
from runs.models import Run, Snapshot
from runs.operations.branching import Wish, branch_id, lost_reference
from runs.phases import PHASES
from runs.snapshots import TRAINING_STATE


def wish_to_continue(run: Run, *, steps: int, snapshot: Snapshot | None = None,
                     overrides: Mapping[str, Any] | None = None, description: str = "", config_name: str = "",
                     submission_id: str = "") -> Wish:
    """The branch that goes on with a run's training for `steps` more updates.

    Sent again under the same submission it is the same wish, whatever was saved meanwhile. Raises NoTrainingState.
    """
    source = snapshot or _source_of(run, submission_id) or newest_state(run)
    return Wish(source, steps, TRAINING_STATE, overrides or {}, description, config_name, submission_id)


def newest_state(run: Run) -> Snapshot:
    """The newest committed save that a run's training can go on from. Raises NoTrainingState."""
    found = queries.newest_restorable(run).first()
    if found is None:
        sentence, hint = _no_state(run)
        raise NoTrainingState(sentence, hint=hint)
    return found


def why_not_continue(run: Run) -> str:
    """Why nothing can go on with the run's training, whatever it would change; empty where something can."""
    if run.smoke is not None:
        return "A smoke check has a slice of its rows by heart; nothing goes on from it."
    found = queries.newest_restorable(run).exists()
    return lost_reference(run) or ("" if found else _no_state(run)[0])


def _source_of(run: Run, submission_id: str) -> Snapshot | None:
    """The save that this submission's child already started from."""
    child = Run.objects.filter(pk=branch_id(run, submission_id)).first() if submission_id else None
    return queries.get_snapshot(str(child.source_snapshot_id), run=run) if child else None


def _no_state(run: Run) -> tuple[str, str]:
    """That no save holds a training state, with what there is instead, and what to do."""
    kept = queries.snapshots_of(run).filter(removed_at=None).count()
    if kept:
        return (f"The run {run.pk[:12]} keeps {kept} save{'' if kept == 1 else 's'}, none with a training state.",
                "Branch from the weights of one: `./optimize runs branch RUN --snapshot SNAPSHOT`.")
    hint = ("Wait for its first save." if run.phase in PHASES.open
            else "Start it again with execution.saveEvery, so that it saves on its way.")
    return f"The run {run.pk[:12]} has no save to go on from; it is {run.phase}.", hint
