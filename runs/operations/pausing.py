"""Pausing a run and going on with it: a wish on the run, carried out by whoever holds its job."""

from dataclasses import dataclass

from django.db import transaction

from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.errors import OperationError, PhaseConflict
from optimize_site.kernel.phases import move
from optimize_site.kernel.work import Ask
from runs import queries
from runs.errors import (
    CheckpointUnknown,
    NothingToResume,
    PauseInProgress,
    RunAlreadyPaused,
    RunEnded,
    RunNotPaused,
    TooLateToPause,
)
from runs.models import Run
from runs.operations.advance import advance_run
from runs.operations.resting import is_pausing, rest
from runs.phases import BEFORE_A_JOB, PHASES, RESUMED

CHECKPOINTS = ("save", "latest")
ASKS: dict[str, Ask] = {"save": "pause", "latest": "drop"}


@dataclass(frozen=True)
class Pausing:
    """A run and its pause; `is_new` is false where the same pause was already in progress."""

    run: Run
    is_new: bool


def pause_run(run: Run, *, checkpoint: str, actor: Actor) -> Pausing:
    """Ask a run to rest and give its device back.

    `save` has it save at the next update's boundary; `latest` ends it at once and keeps what is already saved, and the
    updates since are trained again. Raises CheckpointUnknown, RunAlreadyPaused, PauseInProgress, RunEnded,
    TooLateToPause, NothingToResume.
    """
    actor.require("operator")
    if checkpoint not in CHECKPOINTS:
        raise CheckpointUnknown(f"checkpoint is {checkpoint!r}; it must be save or latest.",
                                hint="save writes a snapshot first; latest keeps the newest there is.")
    with transaction.atomic():
        locked = Run.objects.select_for_update().get(pk=run.pk)
        _refuse_unfit(locked)
        is_new = not is_pausing(locked)
        if is_new:
            _ask(locked, checkpoint, actor)
        elif checkpoint_of(locked) != checkpoint:
            raise PauseInProgress(f"The run {run.pk[:12]} is already pausing with --checkpoint "
                                  f"{checkpoint_of(locked)}, not {checkpoint}.",
                                  hint="Wait for it; the pause in progress cannot be changed.")
    run.refresh_from_db()
    return Pausing(run, is_new)


def _refuse_unfit(run: Run) -> None:
    if run.phase == "PAUSED":
        raise RunAlreadyPaused(f"The run {run.pk[:12]} is PAUSED already.", phase=run.phase,
                               hint=f"Go on with it: `./optimize runs resume {run.pk[:12]}`.")
    if run.phase in PHASES.terminal:
        raise RunEnded(f"The run {run.pk[:12]} is {run.phase}; there is nothing to pause.", phase=run.phase)
    if run.phase in {"RECORDING", "CLEANING_UP"} or run.cancel_requested_at is not None:
        state = "being cancelled" if run.cancel_requested_at else run.phase
        raise TooLateToPause(f"The run {run.pk[:12]} is {state}; it cannot be paused any more.", phase=run.phase,
                             hint="It ends by itself in a moment.")


def _ask(run: Run, checkpoint: str, actor: Actor) -> None:
    """Record the wish; a run that holds no device rests at once."""
    _refuse_loss(run, checkpoint)
    pause = {"checkpoint": checkpoint, "state": "requested", "requestedAt": clock.now().isoformat(),
             "requestedBy": actor.name, "savedStep": None, "reason": "", "resourcesReleased": False}
    Run.objects.filter(pk=run.pk).update(pause=pause)
    events.record(queries.KIND, run.pk, "run.pause_requested", actor=actor, data={"checkpoint": checkpoint})
    if run.phase in BEFORE_A_JOB:
        run.pause = pause
        rest(run, reason="It held no device yet.")


def _refuse_loss(run: Run, checkpoint: str) -> None:
    if checkpoint == "latest" and run.observed_step > 0 and queries.newest_restorable(run).first() is None:
        raise NothingToResume(f"The run {run.pk[:12]} has trained {run.observed_step} updates and holds no save with "
                              "training state; a latest pause would lose them all.",
                              hint="Pause with --checkpoint save, or set execution.saveEvery in the next run.")


def why_not_pause(run: Run, checkpoint: str) -> str:
    """Why the run cannot be paused so now, in the refusal's words; empty where it can."""
    try:
        _refuse_unfit(run)
        _refuse_loss(run, checkpoint)
    except OperationError as error:
        return error.detail
    return "A pause was asked for already." if is_pausing(run) else ""


def ask_of(run: Run) -> Ask:
    """What the pause in progress asks of the job. The run shows PAUSING from the moment its worker passes it on."""
    if not is_pausing(run):
        return ""
    if "PAUSING" in PHASES.next[run.phase]:
        move(run, "PAUSING", phases=PHASES, actor=SYSTEM, reason="A pause was asked for.")
    return ASKS[checkpoint_of(run)]


def checkpoint_of(run: Run) -> str:
    """How the pause of a run was asked for; empty without one."""
    return str((run.pause or {}).get("checkpoint", ""))


def resume_run(run: Run, *, actor: Actor) -> Run:
    """Go on with a paused run, as another attempt of it. Raises RunNotPaused, also to the second of two at once."""
    actor.require("operator")
    run.refresh_from_db()
    _refuse_not_paused(run)
    try:
        move(run, RESUMED, phases=PHASES, actor=actor, reason="resumed", pause=None, wait_reason="",
             data={"pause": run.pause})
    except PhaseConflict as conflict:
        run.refresh_from_db()
        _refuse_not_paused(run)
        raise conflict
    doorbell.ring_control()
    advance_run(run.pk)
    run.refresh_from_db()
    return run


def _refuse_not_paused(run: Run) -> None:
    if run.phase != "PAUSED":
        raise RunNotPaused(f"The run {run.pk[:12]} is {run.phase}, not PAUSED; there is nothing to resume.",
                           phase=run.phase, hint=_instead(run))


def _instead(run: Run) -> str:
    if is_pausing(run):
        return "It is still pausing; wait until it is PAUSED."
    if run.phase in PHASES.terminal:
        return "Start it again, or branch from one of its snapshots."
    return "It goes on by itself."
