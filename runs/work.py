"""The kind of work that trains a run: what waits, what to run, what its events mean, how its job ended."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q, QuerySet

from optimize_site.kernel.judges import keeper
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.work import Ask, Ending
from runs import queries
from runs.job_endings import settle
from runs.job_events import store_events
from runs.job_plans import plan_of
from runs.job_row import move_on
from runs.models import Run
from runs.operations import pausing
from runs.operations.length_check import WAITING


class RunWork:
    """Training runs."""

    kind = queries.KIND

    def waiting(self, device: Device) -> QuerySet[Run]:
        measuring = Q(length_check__contains={"status": WAITING})
        waiting = Run.objects.filter(~measuring, phase="AWAITING_CAPACITY", cancel_requested_at=None,
                                     execution__deviceProfile=device.profile).order_by("queued_at")
        return waiting.exclude(pk__in=keeper().not_ready(self.kind))

    def get(self, pk: str) -> Run:
        return Run.objects.select_related("workload").get(pk=pk)

    def start(self, row: Run, attempt: Attempt) -> None:
        move_on(row, "STARTING_JOB", lease_token=attempt.lease.token, num_attempts=attempt.number, stage={},
                data={"attempt": attempt.number})

    def plan(self, row: Run, attempt: Attempt) -> dict[str, Any]:
        return plan_of(row, attempt)

    def on_events(self, row: Run, attempt: Attempt, events: Sequence[dict[str, Any]]) -> None:
        store_events(row, attempt, events)

    def on_exit(self, row: Run, attempt: Attempt, ending: Ending) -> None:
        settle(row, attempt, ending)

    def ask(self, row: Run) -> Ask:
        if row.cancel_requested_at is not None:
            return "stop"
        return pausing.ask_of(row)


KINDS = (RunWork(),)
