"""Trials: one input asked of a model, with its base model's answer beside it."""

from typing import Any

from django.db import transaction

from datasets.queries import first_system_message
from endpoints import phases
from endpoints.errors import MalformedMessages
from endpoints.models import Trial
from endpoints.operations.work_steps import await_base, await_device, cancel, queue, send_back, usable_base
from optimize_site.kernel import doorbell, events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.conf import setting
from registry.model_queries import serving_of, workload_of
from registry.models import Version
from registry.operations.workloads import refuse_archived_workload
from registry.queries import find_version

ROLES = frozenset({"system", "user", "assistant"})
MAX_CHARACTERS = 100_000
EXAMPLE = '[{"role": "user", "content": "My card was charged twice."}]'


@transaction.atomic
def start_trial(model: Version, messages: list[dict[str, Any]], *, actor: Actor) -> Trial:
    """Ask a model one thing. A trained model that is given no system message gets the one it was trained with.

    Raises MalformedMessages, BaseModelNotReady, TemplateMismatch, WorkloadArchived.
    """
    actor.require("operator")
    refuse_archived_workload(workload_of(model))
    _check(messages)
    usable_base(model)
    trial = Trial.objects.create(model=model, messages=_with_system(model, messages), created_by=actor.name,
                                 phase=phases.AWAITING_BASE_MODEL,
                                 settings={"maxNewTokens": setting("trainer.evaluations.max-new-tokens")})
    events.record("trial", trial.pk, "trial.started", actor=actor, data={"model": model.reference})
    advance_trial(trial)
    doorbell.ring_control()
    return trial


def _check(messages: list[dict[str, Any]]) -> None:
    if not messages or messages[-1].get("role") != "user":
        raise MalformedMessages("A trial's messages end with what the user says.", hint=f"Example: {EXAMPLE}")
    for place, message in enumerate(messages):
        if not _is_message(message):
            raise MalformedMessages(f"messages[{place}] must hold a role (system, user or assistant) and a text.",
                                    hint=f"Example: {EXAMPLE}")
    if any(message["role"] == "system" for message in messages[1:]):
        raise MalformedMessages("A system message can only be the first.", hint=f"Example: {EXAMPLE}")
    if sum(len(message["content"]) for message in messages) > MAX_CHARACTERS:
        raise MalformedMessages(f"The messages are longer than {MAX_CHARACTERS} characters.", hint="Shorten them.")


def _is_message(message: dict[str, Any]) -> bool:
    return (set(message) == {"role", "content"} and message["role"] in ROLES
            and isinstance(message["content"], str))


def _with_system(model: Version, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    trained_on = str(model.lineage.get("dataset") or model.lineage.get("datasetHash") or "")
    if messages[0]["role"] == "system" or serving_of(model).is_base or not trained_on:
        return messages
    dataset = find_version("dataset", trained_on, namespace=model.artifact.namespace_id)
    system = first_system_message(dataset) if dataset is not None and dataset.format.startswith("chat") else None
    return [{"role": "system", "content": system}, *messages] if system else messages


@transaction.atomic
def cancel_trial(trial: Trial, *, actor: Actor) -> Trial:
    """Stop it. Cancelling twice changes nothing. Raises PhaseConflict where it ended."""
    locked = Trial.objects.select_for_update().get(pk=trial.pk)
    cancel(locked, phases.TRIAL, actor)
    return locked


def advance_trials() -> None:
    """The next step of every trial that no job has yet."""
    for pk in Trial.objects.filter(phase__in=phases.QUEUED).values_list("pk", flat=True):
        with transaction.atomic():
            trial = Trial.objects.select_for_update(skip_locked=True).filter(pk=pk).first()
            if trial is not None:
                send_back(trial, phases.TRIAL, serving_of(trial.model).base_model)
                await_device(trial, phases.TRIAL)
                advance_trial(trial)


def advance_trial(trial: Trial) -> None:
    """Into the queue once the base model is ready. Does nothing in any other phase."""
    if trial.phase != phases.AWAITING_BASE_MODEL:
        return
    if await_base(trial, phases.TRIAL, serving_of(trial.model).base_model) is not None:
        queue(trial, phases.TRIAL)
