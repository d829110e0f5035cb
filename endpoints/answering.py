"""What all work that asks a model does alike: its way through the phases, and the plan of its job."""

from pathlib import Path
from typing import Any

from django.db.models import F, QuerySet

from endpoints import phases
from endpoints.operations.work_steps import go_back
from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.conf import setting
from optimize_site.kernel.losses import loss_words
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.phases import PhaseTable, move
from optimize_site.kernel.work import Ask, Ending, OneByOne, attempt_folder
from optimize_site.kernel.work_row import WorkRow
from registry.adapter_folder import lay_out_adapter
from registry.base_model_queries import BaseModelState
from registry.model_queries import serving_of
from registry.models import Version

CANDIDATE, BASE = "candidate", "base"


class AnsweringWork(OneByOne):
    """A kind of work that asks a model; subclasses say what is asked, and what an answer and the end mean."""

    kind: str
    table: PhaseTable
    rows: type[WorkRow]

    def waiting(self, device: Device) -> QuerySet[Any]:
        rows = self.rows._default_manager.filter(phase=phases.AWAITING_CAPACITY).order_by("queued_at")
        return rows.none() if device.kind == Device.HOST else rows

    def get(self, pk: str) -> Any:
        return self.rows._default_manager.get(pk=pk)

    def start(self, row: Any, attempt: Attempt) -> None:
        move(row, phases.STARTING_JOB, phases=self.table, actor=SYSTEM, lease_token=attempt.lease.token,
             num_attempts=attempt.number, stage={})

    def on_event(self, row: Any, attempt: Attempt, event: dict[str, Any]) -> None:
        match event["type"]:
            case "started":
                move(row, phases.EVALUATING, phases=self.table, actor=SYSTEM)
            case "stage":
                self.update(row, stage=self.stage_of(event))
            case "check":
                shown = {key: event.get(key) for key in ("name", "passed", "value", "bound", "seconds", "detail")}
                self.update(row, checks=[*row.checks, shown])
            case "failure":
                self.update(row, failure_code=event["code"][:40], failure_reason=event["reason"],
                             failure_hint=event.get("hint") or "")
            case "warning":
                events.record(self.kind, row.pk, f"{self.kind}.warning", actor=SYSTEM, reason=event["message"],
                              data={"code": event["code"]})
            case "answer":
                self.on_answer(row, event)

    def stage_of(self, event: dict[str, Any]) -> dict[str, Any]:
        """What a row keeps of how far its job is."""
        return {key: event.get(key) for key in ("name", "done", "total")}

    def on_answer(self, row: Any, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def complete(self, row: Any) -> None:
        raise NotImplementedError

    def on_exit(self, row: Any, attempt: Attempt, ending: Ending) -> None:
        if row.phase not in self.table.active:
            return
        self.count_device_seconds(row, attempt)
        if ending.outcome == "finished":
            self.complete(row)
        elif row.cancel_requested_at is not None:
            move(row, phases.CANCELLED, phases=self.table, actor=SYSTEM)
        elif ending.outcome == "failed":
            move(row, phases.FAILED, phases=self.table, actor=SYSTEM, reason=row.failure_reason)
        else:
            self.queue_again(row, ending)

    def queue_again(self, row: Any, ending: Ending) -> None:
        """A worker that stopped says nothing against the work; a job that keeps dying does."""
        lost = Attempt.objects.filter(holder_kind=self.kind, holder_id=row.pk, outcome="lost").count()
        if ending.outcome == "lost" and lost >= setting("trainer.jobs.max-attempts"):
            self.fail(row, *loss_words(ending, lost))
            return
        self.line_up(row)

    def line_up(self, row: Any) -> None:
        """Back into the line for a device."""
        go_back(row, self.table)

    def fail(self, row: Any, code: str, reason: str, hint: str) -> None:
        """End the work, saying why."""
        move(row, phases.FAILED, phases=self.table, actor=SYSTEM, reason=reason, failure_code=code,
             failure_reason=reason, failure_hint=hint)

    def count_device_seconds(self, row: Any, attempt: Attempt) -> None:
        """Add what an attempt that ended held its device for."""
        spent = ((attempt.ended_at or clock.now()) - attempt.started_at).total_seconds()
        self.rows._default_manager.filter(pk=row.pk).update(device_seconds=F("device_seconds") + max(0.0, spent))

    def update(self, row: Any, **columns: Any) -> None:
        """Set columns of the row, here and in the database."""
        for name, value in columns.items():
            setattr(row, name, value)
        self.rows._default_manager.filter(pk=row.pk).update(**columns)

    def ask(self, row: Any) -> Ask:
        return "stop" if row.cancel_requested_at is not None else ""


def adapter_folder(version: Version, attempt: Attempt) -> str | None:
    """A folder of the attempt in which the adapter's blobs stand under their names; None for a base model."""
    return adapter_in(attempt_folder(attempt.pk) / "adapter", version)


def adapter_in(folder: Path, version: Version) -> str | None:
    """The folder, with the adapter's blobs under their names; None for a base model, which has none."""
    return None if serving_of(version).is_base else str(lay_out_adapter(version, folder))


def judge_plan(state: BaseModelState, *, adapter: str | None, socket: str = "",
               asked: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A model that judges at a socket, or once what is `asked`. Raises FileNotFoundError where the base model is gone.
    """
    tokens = int(setting("trainer.judges.max-new-tokens"))
    return {"entry": "judge", "base_model": _base_part(state), "adapter": adapter, "socket": socket, "asked": asked,
            "max_new_tokens": tokens, "max_prompt_tokens": _longest(state, tokens)}


def answering_plan(state: BaseModelState, settings: dict[str, Any], *, systems: list[dict[str, Any]],
                   files: list[str] | None = None, inline: list[dict[str, Any]] | None = None,
                   skip: list[int] | None = None) -> dict[str, Any]:
    """What the job is to answer, with which systems. Raises FileNotFoundError where the base model is gone."""
    tokens = settings["maxNewTokens"]
    return {"entry": "evaluate", "systems": systems, "rows": {"files": files or [], "inline": inline or []},
            "base_model": _base_part(state), "max_new_tokens": tokens, "max_prompt_tokens": _longest(state, tokens),
            "skip_positions": skip or []}


def _base_part(state: BaseModelState) -> dict[str, Any]:
    if state.folder is None or not state.is_ready:
        raise FileNotFoundError(f"{state.repository} is not prepared any more; select it again")
    return {"folder": str(state.folder), "revision": state.revision, "repository": state.repository,
            "chat_template_sha256": state.chat_template_sha256 or None}


def _longest(state: BaseModelState, answer: int) -> int | None:
    """The tokens a prompt may have that leaves room for the answer."""
    return None if state.context_length is None else max(1, state.context_length - answer)
