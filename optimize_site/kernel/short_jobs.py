"""Jobs that a request waits for: an app below the workers asks, the workers' app answers when it is ready."""

from collections.abc import Mapping
from typing import Any, Protocol

WAIT_SECONDS = 90.0


class ShortJobs(Protocol):
    """Who starts jobs."""

    def run(self, plan: Mapping[str, Any], *, kind: str, threads: int, seconds: float) -> dict[str, Any]:
        """Run a job on the box's processors and wait for it; `kind` names it in what is said. Gives the fields of its
        last event. Raises Refused with the job's own reason, Unavailable where it has not answered after `seconds`."""


class NoJobs:
    """No app that starts jobs is installed."""

    def run(self, plan: Mapping[str, Any], *, kind: str, threads: int, seconds: float) -> dict[str, Any]:
        raise NotImplementedError(f"nothing here runs a {kind}")


_jobs: ShortJobs = NoJobs()


def provide(jobs: ShortJobs) -> None:
    """Called once by the app that starts jobs."""
    global _jobs
    _jobs = jobs


def run_short_job(plan: Mapping[str, Any], *, kind: str, threads: int = 1,
                  seconds: float = WAIT_SECONDS) -> dict[str, Any]:
    """The fields of the last event of a job that somebody waits for; see `ShortJobs.run`."""
    return _jobs.run(plan, kind=kind, threads=threads, seconds=seconds)
