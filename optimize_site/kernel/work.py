"""What a kind of work tells the device workers: what waits, what to run, what its events mean, how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from django.db.models import QuerySet

from optimize_site.kernel.conf import home
from optimize_site.kernel.models import Attempt, Device

Ask = Literal["", "stop", "pause", "drop"]
"""What a worker asks of a job: nothing; save and end; save and end to rest; end at once with what is already saved."""
Outcome = Literal["finished", "failed", "lost", "stopped"]
"""finished: it said so and exited 0. failed: it reported a failure. stopped: it was asked to. lost: anything else."""


@dataclass(frozen=True)
class Ending:
    """How an attempt's job ended: the outcome, the shepherd's exit record, the end of its standard error."""

    outcome: Outcome
    exit: dict[str, Any]
    last_words: str = ""

    @property
    def is_stall(self) -> bool:
        """Whether the job was ended because it had stopped getting on; `exit["stalled"]` holds what it was at."""
        return self.outcome == "lost" and "stalled" in self.exit


class WorkKind(Protocol):
    """One kind of job. Implemented in `<app>/work.py`; all calls but `plan` run inside a transaction."""

    kind: str

    def waiting(self, device: Device) -> QuerySet[Any]:
        """Rows that wait for a device like this one, first come first; each has `queued_at`."""

    def get(self, pk: str) -> Any:
        """The row of this kind with that ID."""

    def start(self, row: Any, attempt: Attempt) -> None:
        """The row was given a lease (`row.lease_token` is still empty): move it to its starting phase with the
        attempt's `lease.token`."""

    def plan(self, row: Any, attempt: Attempt) -> dict[str, Any]:
        """Everything the job needs, nothing left to a default. May verify files and set `attempt.resumed_step`."""

    def on_events(self, row: Any, attempt: Attempt, events: Sequence[dict[str, Any]]) -> None:
        """The next events of the job, in order, each exactly once."""

    def on_exit(self, row: Any, attempt: Attempt, ending: Ending) -> None:
        """The job's process is gone and all its events were read: move the row on. The lease is released in the
        same transaction."""

    def ask(self, row: Any) -> Ask:
        """What the row wants of its job now: to end, because it was cancelled, or to rest."""


class OneByOne:
    """Takes events one after another, by the `on_event` of its kind; what a kind stores many of it may store at once.
    """

    def on_event(self, row: Any, attempt: Attempt, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def on_events(self, row: Any, attempt: Attempt, events: Sequence[dict[str, Any]]) -> None:
        for event in events:
            self.on_event(row, attempt, event)


def takes_host_work(device: Device) -> bool:
    """Whether work that needs no device runs on this one: the host, else the processors, else whatever there is."""
    if device.kind == Device.HOST:
        return True
    present = set(Device.objects.filter(is_present=True).values_list("kind", flat=True))
    return device.kind == next((kind for kind in (Device.HOST, "cpu") if kind in present), device.kind)


def attempt_folder(attempt_id: str) -> Path:
    """Where an attempt's files lie."""
    return home() / "attempts" / attempt_id
