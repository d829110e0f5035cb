"""Coming to rest: the moment a run that was to pause holds nothing any more."""


from optimize_site.kernel import clock
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.phases import move
from runs import queries
from runs.models import Run
from runs.phases import PHASES


def is_pausing(run: Run) -> bool:
    """Whether a pause was asked for and has not come about."""
    return (run.pause or {}).get("state") == "requested"


def rest(run: Run, *, reason: str = "", failure: str = "") -> None:
    """The run holds nothing any more: it is PAUSED, and says which step it would go on from.

    `failure` says why a save that was asked for did not come about; it is never shown as a success.
    """
    pause = run.pause or {"checkpoint": "save", "requestedAt": clock.now().isoformat(), "requestedBy": "plan"}
    newest = queries.newest_restorable(run).first()
    pause |= {"state": "failed" if failure else "paused", "reason": failure, "resourcesReleased": True,
              "savedStep": newest.step if newest else None, "pausedAt": clock.now().isoformat()}
    move(run, "PAUSED", phases=PHASES, actor=SYSTEM, reason=failure or reason, pause=pause, stage={},
         data={"savedStep": pause["savedStep"]})
