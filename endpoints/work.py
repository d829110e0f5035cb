"""The kinds of work that answer one input, a trial, and that stay to be asked, a judge."""

from typing import Any

from django.db import connection
from django.db.models import QuerySet

from endpoints import phases
from endpoints.answering import BASE, CANDIDATE, AnsweringWork, adapter_folder, answering_plan, judge_plan
from endpoints.models import Judge, Trial
from endpoints.operations.judges import is_wanted, release, socket_of
from endpoints.rooms import startable
from optimize_site.kernel import doorbell
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.phases import move
from optimize_site.kernel.work import Ask, Ending
from registry.base_model_queries import get_base_model
from registry.model_queries import serving_of


class TrialWork(AnsweringWork):
    """Answers one input with the model and with its base model."""

    kind, table, rows = "trial", phases.TRIAL, Trial

    def plan(self, row: Trial, attempt: Attempt) -> dict[str, Any]:
        state = get_base_model(serving_of(row.model).base_model)
        systems: list[dict[str, Any]] = [{"name": BASE, "adapter": None}]
        if not serving_of(row.model).is_base:
            systems.insert(0, {"name": CANDIDATE, "adapter": adapter_folder(row.model, attempt)})
        return answering_plan(state, row.settings, systems=systems, inline=[{"messages": row.messages}])

    def on_answer(self, row: Trial, event: dict[str, Any]) -> None:
        answer = {"answer": event.get("answer"), "finish": event["finish"], "promptTokens": event["prompt_tokens"],
                  "completionTokens": event["completion_tokens"], "baseModelRevision": event["base_model_revision"],
                  "chatTemplateSha256": event["chat_template_sha256"]}
        self.update(row, answers=row.answers | {event["system"]: answer})

    def complete(self, row: Trial) -> None:
        move(row, phases.COMPLETED, phases=self.table, actor=SYSTEM, stage={})


JUDGING = "judging"
"""The stage a judge's job says when it answers."""
ROOM_LOCK = 7_530_914
"""Taken while a slot looks for a judge: two slots that looked at once would each see the room that one of them takes.
"""


class JudgeWork(AnsweringWork):
    """Holds a model on a slot and answers at its socket until its holder wants it no more."""

    kind, table, rows = "judge", phases.JUDGE, Judge

    def waiting(self, device: Device) -> QuerySet[Judge]:
        waiting = Judge.objects.filter(phase=phases.AWAITING_CAPACITY, profile=device.profile).order_by("queued_at")
        if device.kind == Device.HOST or not waiting.exists():
            return waiting.none()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ROOM_LOCK])
        return waiting.filter(pk__in=startable(device.profile))

    def plan(self, row: Judge, attempt: Attempt) -> dict[str, Any]:
        state = get_base_model(serving_of(row.model).base_model)
        socket = socket_of(row)
        socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return judge_plan(state, adapter=adapter_folder(row.model, attempt), socket=str(socket))

    def on_event(self, row: Judge, attempt: Attempt, event: dict[str, Any]) -> None:
        if event["type"] == "stage" and event["name"] == JUDGING and row.phase == phases.STARTING_JOB:
            move(row, phases.READY, phases=self.table, actor=SYSTEM)
            doorbell.ring_control()
        if event["type"] != "started":
            super().on_event(row, attempt, event)

    def stage_of(self, event: dict[str, Any]) -> dict[str, Any]:
        peak = event.get("peak_memory_bytes")
        return super().stage_of(event) | ({} if peak is None else {"peakMemoryBytes": peak})

    def on_exit(self, row: Judge, attempt: Attempt, ending: Ending) -> None:
        """Released where nobody wants it any more; failed for good where it said why; else it comes again."""
        if row.phase not in self.table.active:
            return
        self.count_device_seconds(row, attempt)
        if not is_wanted(row):
            release(row)
        elif ending.outcome == "failed":
            move(row, phases.FAILED, phases=self.table, actor=SYSTEM, reason=row.failure_reason)
        else:
            self.queue_again(row, ending)
        doorbell.ring_control()

    def ask(self, row: Judge) -> Ask:
        return "" if is_wanted(row) else "stop"


KINDS = (TrialWork(), JudgeWork())
