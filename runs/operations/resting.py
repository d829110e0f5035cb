"""Coming to rest: the moment a run that was to pause holds nothing any more."""

from optimize_site.kernel import clock
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.phases import move
from runs import queries
from runs.models import Run
from runs.phases import PHASES

NOT_SAVED = "The save that was asked for did not come about."


def is_pausing(run: Run) -> bool:
    """Whether a pause was asked for and has not come about."""
    return (run.pause or {}).get("state") == "requested"


def rest(run: Run, *, reason: str = "", ended: str = "") -> None:
    """The run holds nothing any more: it is PAUSED, and says which step it would go on from.

    `ended` says how the job ended that was asked to pause, where there was one. A save that was asked for and that it
    left undone is told as a failure with that reason, never as a success.
    """
    pause = run.pause or {"checkpoint": "save", "requestedAt": clock.now().isoformat(), "requestedBy": "plan"}
    newest = queries.newest_restorable(run).first()
    is_saved = newest is not None and newest.step >= run.observed_step
    failure = f"{NOT_SAVED} {ended}" if ended and pause["checkpoint"] == "save" and not is_saved else ""
    pause |= {"state": "failed" if failure else "paused", "reason": failure, "resourcesReleased": True,
              "savedStep": newest.step if newest else None, "pausedAt": clock.now().isoformat()}
    move(run, "PAUSED", phases=PHASES, actor=SYSTEM, reason=failure or reason, pause=pause, stage={},
         data={"savedStep": pause["savedStep"]})


def failure_words(run: Run) -> str:
    """Why the run's newest job failed and what to do, as one text; empty where it did not say."""
    return f"{run.failure_reason} {run.failure_hint}".strip()


def has_rested_at(run: Run, step: int) -> bool:
    """Whether the run rested at the save of that update, or a later one, and was taken up again."""
    return queries.events_of(run).filter(data__pause__savedStep__gte=step).exists()
