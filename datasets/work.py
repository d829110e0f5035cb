"""The kind of work that measures a dataset: an analysis, which runs on the host's slots and holds no device."""

import os
from typing import Any

from django.db.models import QuerySet

from datasets.analyses import phases, queries
from datasets.models import Analysis
from datasets.plan import dataset_part
from datasets.queries import names_of
from optimize_site.kernel import doorbell, events
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import Unavailable
from optimize_site.kernel.losses import loss_words
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.phases import move
from optimize_site.kernel.plan_parts import base_model_part
from optimize_site.kernel.work import Ask, Ending, OneByOne, takes_host_work
from registry.base_model_queries import base_model_state


class AnalysisWork(OneByOne):
    """Analyses. What one measured of single rows lies in its folder, and a later attempt goes on from there."""

    kind = queries.KIND

    def waiting(self, device: Device) -> QuerySet[Analysis]:
        rows = queries.with_base_model_ready()
        return rows if takes_host_work(device) else rows.none()

    def get(self, pk: str) -> Analysis:
        return queries.all_analyses().get(pk=pk)

    def start(self, row: Analysis, attempt: Attempt) -> None:
        move(row, phases.STARTING, phases=phases.PHASES, actor=SYSTEM, lease_token=attempt.lease.token,
             num_attempts=attempt.number, stage={})

    def plan(self, row: Analysis, attempt: Attempt) -> dict[str, Any]:
        """The rows, the base model, and the folder for what is measured. Raises Unavailable."""
        state = base_model_state(row.repository)
        if state is None or state.folder is None or state.revision != row.revision:
            raise Unavailable(f"{row.repository} at {row.revision} is not prepared on this box.",
                              hint=f"Select it with `./optimize base-models select {row.repository}`.")
        base = base_model_part(folder=str(state.folder), revision=state.revision, repository=row.repository,
                               chat_template_sha256=state.chat_template_sha256)
        return {"entry": "analyse", "base_model": base, "dataset": dataset_part(row.examples, name=_name_of(row)),
                "product_version": row.product_version, "processes": os.cpu_count() or 1,
                "out": str(queries.folder_of(row)),
                "template_origin": "corrected" if state.chat_template_correction else "shipped"}

    def on_event(self, row: Analysis, attempt: Attempt, event: dict[str, Any]) -> None:
        match event["type"]:
            case "started":
                move(row, phases.RUNNING, phases=phases.PHASES, actor=SYSTEM)
            case "stage":
                _keep(row, stage={key: event.get(key) for key in ("name", "done", "total", "unit")})
            case "failure":
                _keep(row, failure_code=event["code"][:40], failure_reason=event["reason"],
                      failure_hint=event.get("hint") or "")
            case "warning":
                events.record(self.kind, row.pk, "analysis.warning", actor=SYSTEM, reason=event["message"],
                              data={"code": event["code"]})
            case "finished":
                _keep(row, report=event["report"])

    def on_exit(self, row: Analysis, attempt: Attempt, ending: Ending) -> None:
        if row.phase not in phases.PHASES.active:
            return
        if ending.outcome == "finished":
            move(row, phases.COMPLETED, phases=phases.PHASES, actor=SYSTEM, failure_code="", failure_reason="",
                 failure_hint="")
        elif row.cancel_requested_at is not None:
            move(row, phases.CANCELLED, phases=phases.PHASES, actor=SYSTEM)
        elif ending.outcome == "failed":
            move(row, phases.FAILED, phases=phases.PHASES, actor=SYSTEM, reason=row.failure_reason)
        else:
            self._queue_again(row, ending)
        doorbell.ring_control()

    def _queue_again(self, row: Analysis, ending: Ending) -> None:
        """A worker that stopped says nothing against the data; a job that keeps dying does."""
        lost = Attempt.objects.filter(holder_kind=self.kind, holder_id=row.pk, outcome="lost").count()
        if ending.outcome == "lost" and lost >= setting("trainer.jobs.max-attempts"):
            code, reason, hint = loss_words(ending, lost)
            move(row, phases.FAILED, phases=phases.PHASES, actor=SYSTEM, reason=reason, failure_code=code,
                 failure_reason=reason, failure_hint=hint)
            return
        move(row, phases.PENDING, phases=phases.PHASES, actor=SYSTEM, reason=ending.outcome)
        doorbell.ring_devices()

    def ask(self, row: Analysis) -> Ask:
        return "stop" if row.cancel_requested_at is not None else ""


def _name_of(row: Analysis) -> str:
    """What the examples are called: the first version that held them, else their hash."""
    return next(iter(names_of(row.examples_id)[1]), row.examples_id)


def _keep(row: Analysis, **columns: Any) -> None:
    """Set columns of the row, here and in the database."""
    for name, value in columns.items():
        setattr(row, name, value)
    Analysis.objects.filter(pk=row.pk).update(**columns)


KINDS = (AnalysisWork(),)
