"""The kind of work that prepares a base model: fetch, check, and keep it in the state folder."""

import shutil
from typing import Any

import msgspec
from django.db.models import QuerySet

from optimize_site.kernel import doorbell
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.catalog import BaseModelEntry, load_catalog, load_correction
from optimize_site.kernel.conf import home, setting
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.losses import loss_words
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.phases import move
from optimize_site.kernel.work import Ask, Ending, OneByOne, takes_host_work
from registry import phases
from registry.models import BaseModel
from registry.operations.models import register_base_model

FOLDER_ID = 16
"""How much of an attempt's ID names the folder that it fetches into."""
SELECT_AGAIN = "What was fetched is kept: select the base model again then."
READING_STAGES = frozenset({"starting", "reading", "resolving"})


class BaseModelWork(OneByOne):
    """Preparations run on the host's slots, so that they neither hold a device nor wait behind training."""

    kind = "base_model"

    def waiting(self, device: Device) -> QuerySet[BaseModel]:
        rows = BaseModel.objects.filter(phase=phases.PENDING).order_by("queued_at")
        return rows if takes_host_work(device) else rows.none()

    def get(self, pk: str) -> BaseModel:
        return BaseModel.objects.get(pk=pk)

    def start(self, row: BaseModel, attempt: Attempt) -> None:
        move(row, phases.PREPARING, phases=phases.PHASES, actor=SYSTEM, lease_token=attempt.lease.token,
             num_attempts=attempt.number, progress={}, failure_code="", failure_reason="")

    def plan(self, row: BaseModel, attempt: Attempt) -> dict[str, Any]:
        """The catalog's word on the entry, and a folder of this attempt's own."""
        entry = load_catalog().base_models[row.repository]
        stated = {"revision": entry.revision, "special_tokens": entry.special_tokens, "parameters": entry.parameters,
                  "chat_template_sha256": entry.chat_template_sha256, "context_length": entry.context_length}
        catalog = {key: value for key, value in stated.items() if value} | _correction(entry)
        return {"entry": "prepare", "source": _source(entry), "catalog": catalog,
                "out": str(home() / folder_of(row, attempt)), "token_env": "HF_TOKEN"}

    def on_event(self, row: BaseModel, attempt: Attempt, event: dict[str, Any]) -> None:
        match event["type"]:
            case "stage" | "progress":
                self._note_progress(row, event)
            case "failure":
                BaseModel.objects.filter(pk=row.pk).update(
                    failure_code=event["code"][:40], failure_reason=_sentences(event["reason"], event.get("hint")))
            case "finished":
                BaseModel.objects.filter(pk=row.pk).update(
                    revision=event.get("revision") or "", folder=folder_of(row, attempt), facts=_facts(event))

    def _note_progress(self, row: BaseModel, event: dict[str, Any]) -> None:
        stage = event.get("name") or row.progress.get("stage", "")
        if row.phase == phases.PREPARING and stage not in READING_STAGES:
            move(row, phases.FETCHING, phases=phases.PHASES, actor=SYSTEM, reason=stage)
        row.progress = {"stage": stage, "done": event.get("done"), "total": event.get("total"),
                        "unit": event.get("unit")}
        BaseModel.objects.filter(pk=row.pk).update(progress=row.progress)

    def on_exit(self, row: BaseModel, attempt: Attempt, ending: Ending) -> None:
        if row.phase not in phases.PHASES.active:
            return
        if ending.outcome != "finished":
            shutil.rmtree(home() / folder_of(row, attempt), ignore_errors=True)
        if row.cancel_requested_at is not None:
            move(row, phases.DESELECTED, phases=phases.PHASES, actor=SYSTEM, cancel_requested_at=None, progress={})
        elif ending.outcome == "finished":
            self._is_ready(row)
        elif ending.outcome == "failed":
            self._refuse(row, row.failure_code, row.failure_reason)
        else:
            self._queue_again(row, ending)
        doorbell.ring_control()

    def _is_ready(self, row: BaseModel) -> None:
        """READY, with its version; where that may not be registered the weights stay for when it may."""
        try:
            version = register_base_model(row, actor=SYSTEM)
        except OperationError as error:
            self._refuse(row, error.code, _sentences(error.detail, f"{error.hint} {SELECT_AGAIN}"))
            return
        move(row, phases.READY, phases=phases.PHASES, actor=SYSTEM, version=version, progress={},
             data={"revision": row.revision, "modelId": version.pk})

    def _refuse(self, row: BaseModel, code: str, reason: str) -> None:
        to = phases.UNSUPPORTED if code == "base_model_refused" else phases.UNAVAILABLE
        move(row, to, phases=phases.PHASES, actor=SYSTEM, reason=reason, failure_code=code, failure_reason=reason,
             progress={})

    def _queue_again(self, row: BaseModel, ending: Ending) -> None:
        """A worker that stopped says nothing against the base model; a job that keeps dying does."""
        tries = Attempt.objects.filter(holder_kind=self.kind, holder_id=row.pk, outcome="lost",
                                       started_at__gte=row.selected_at or row.created_at).count()
        if ending.outcome == "lost" and tries >= setting("trainer.jobs.max-attempts"):
            code, reason, _ = loss_words(ending, tries)
            self._refuse(row, code, reason)
            return
        move(row, phases.PENDING, phases=phases.PHASES, actor=SYSTEM, reason=ending.outcome)
        doorbell.ring_devices()

    def ask(self, row: BaseModel) -> Ask:
        return "stop" if row.cancel_requested_at is not None else ""


def folder_of(row: BaseModel, attempt: Attempt) -> str:
    """Where an attempt puts the weights, inside the state folder: never over a folder that work may be reading."""
    return f"base-models/{row.repository.replace('/', '--').lower()}/{attempt.pk[:FOLDER_ID]}"


def _correction(entry: BaseModelEntry) -> dict[str, Any]:
    if not entry.chat_template_correction:
        return {}
    return {"chat_template_correction": msgspec.to_builtins(load_correction(entry.chat_template_correction))}


def _source(entry: BaseModelEntry) -> dict[str, Any]:
    stated: dict[str, Any] = {key: value for key, value in msgspec.to_builtins(entry.source).items() if value}
    if entry.source.kind == "hub":
        stated = {"repository": entry.repository, "revision": entry.revision or None} | stated
    if entry.source.kind != "folder":
        stated["cache"] = str(home() / "downloads")
    return stated


def _sentences(reason: str, hint: str | None) -> str:
    return f"{reason} {hint or ''}".strip()


def _facts(event: dict[str, Any]) -> dict[str, Any]:
    names = {"parameters": "parameters", "context_length": "contextLength", "vocab_size": "vocabSize",
             "chat_template_sha256": "chatTemplateSha256", "chat_template_correction": "chatTemplateCorrection",
             "special_tokens": "specialTokens", "files": "files", "architecture": "architecture",
             "model_type": "modelType", "bytes": "bytes"}
    return {ours: event[theirs] for theirs, ours in names.items() if event.get(theirs) is not None}


KINDS = (BaseModelWork(),)
