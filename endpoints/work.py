"""The kind of work that answers one input: a trial."""

from typing import Any

from endpoints import phases
from endpoints.answering import BASE, CANDIDATE, AnsweringWork, adapter_folder, answering_plan
from endpoints.models import Trial
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.phases import move
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


KINDS = (TrialWork(),)
