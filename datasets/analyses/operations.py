"""Starting, stopping and looking after analyses: one for each set of examples, base model commit and version."""

from dataclasses import dataclass

from django.db import transaction

from datasets.analyses import phases, queries
from datasets.analyses.errors import AnalysisEnded, BaseModelUnusable, NotAnalysable
from datasets.models import Analysis, ExampleSet
from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.box import VERSION
from optimize_site.kernel.errors import PhaseConflict
from optimize_site.kernel.line import end_of_line
from optimize_site.kernel.phases import move
from registry.base_model_queries import BaseModelState, base_model_state

MEASURED = {"chat-jsonl-v1": "rows", "preference-jsonl-v1": "pairs"}
"""The formats that an analysis measures, and what it counts in each."""
NOT_MEASURED = {
    "prepared-tokens-v1": "its rows are tokens already, and the version records the longest one",
    "eval-items-v1": "its items are asked by an evaluation and never trained on",
}


@dataclass(frozen=True)
class Started:
    """An analysis, and whether asking for it made or restarted it."""

    analysis: Analysis
    is_new: bool


@transaction.atomic
def start_analysis(examples: ExampleSet, state: BaseModelState, *, actor: Actor) -> Started:
    """Measure some examples under a base model, or find that it was done.

    One that failed or was cancelled starts again, unless it refused the data; so does one whose measurements are gone.
    Raises NotAnalysable, BaseModelUnusable, and Forbidden where something would start.
    """
    refuse_unmeasured(examples)
    refuse_base_model(state)
    found = queries.find_analysis(examples.pk, state)
    if found is not None and not _starts_again(found):
        return Started(found, is_new=False)
    actor.require("operator")
    return _make(examples, state, actor) if found is None else _restart(found, actor)


def refuse_unmeasured(examples: ExampleSet) -> None:
    """Raise NotAnalysable for a format that an analysis does not measure."""
    if examples.format not in MEASURED:
        why = NOT_MEASURED.get(examples.format, f"this box does not measure {examples.format}")
        raise NotAnalysable(f"The dataset cannot be analyzed: {why}.", hint="Chat rows and preference pairs can.")


def refuse_base_model(state: BaseModelState) -> None:
    """Raise BaseModelUnusable for a base model that is not chosen, could not be prepared, or has no commit yet."""
    select = f"`./optimize base-models select {state.repository}`"
    if state.is_refused:
        raise BaseModelUnusable(f"{state.repository} could not be prepared: {state.failure}", hint=f"Then {select}.")
    if not state.is_selected:
        raise BaseModelUnusable(f"Nobody has selected {state.repository}.", hint=f"Select it with {select}.",
                                code="base_model_not_selected")
    if not state.revision:
        raise BaseModelUnusable(f"{state.repository} resolves to no commit yet; it is being prepared.",
                                hint=f"Wait for it with `./optimize base-models wait {state.repository}`.",
                                code="base_model_without_commit")


def _starts_again(analysis: Analysis) -> bool:
    status = queries.status_of(analysis)
    return status in {"cancelled", phases.UNREADABLE} or (status == "failed" and queries.may_succeed(analysis))


def _make(examples: ExampleSet, state: BaseModelState, actor: Actor) -> Started:
    analysis, is_new = Analysis.objects.get_or_create(
        examples=examples, repository=state.repository, revision=state.revision, product_version=VERSION,
        defaults={"phase": phases.PENDING, "queued_at": end_of_line(), "created_by": actor.name})
    if is_new:
        events.record(queries.KIND, analysis.pk, "analysis.started", actor=actor, data={"phase": phases.PENDING})
        doorbell.ring_devices()
    return Started(analysis, is_new)


def _restart(found: Analysis, actor: Actor) -> Started:
    analysis = Analysis.objects.select_for_update().get(pk=found.pk)
    if analysis.phase not in phases.ENDS:
        return Started(analysis, is_new=False)
    move(analysis, phases.PENDING, phases=phases.PHASES, actor=actor, reason="asked for again",
         queued_at=end_of_line(), ended_at=None, cancel_requested_at=None, failure_code="", failure_reason="",
         failure_hint="", stage={}, report={})
    doorbell.ring_devices()
    return Started(analysis, is_new=True)


@transaction.atomic
def cancel_analysis(analysis: Analysis, *, actor: Actor) -> Analysis:
    """Stop an analysis; asked again while it ends, it changes nothing. Raises AnalysisEnded where it is over."""
    actor.require("operator")
    locked = Analysis.objects.select_for_update().get(pk=analysis.pk)
    if locked.phase in phases.ENDS:
        raise AnalysisEnded(f"The analysis {locked.pk[:12]} is {phases.STATUS[locked.phase]}; there is nothing to "
                            "stop.", phase=locked.phase)
    if locked.phase == phases.PENDING:
        move(locked, phases.CANCELLED, phases=phases.PHASES, actor=actor)
        doorbell.ring_control()
    elif locked.cancel_requested_at is None:
        locked.cancel_requested_at = clock.now()
        locked.save(update_fields=["cancel_requested_at"])
        events.record(queries.KIND, locked.pk, "analysis.cancel_requested", actor=actor)
    return locked


def advance_all() -> None:
    """Fail the analyses that wait for a base model which will not come."""
    for analysis in Analysis.objects.filter(phase=phases.PENDING):
        why = _hopeless(analysis)
        if why is not None:
            _fail(analysis, *why)


def _hopeless(analysis: Analysis) -> tuple[str, str] | None:
    """Code and sentence where the base model it waits for will not be there at its commit."""
    state, named = base_model_state(analysis.repository), analysis.repository
    if state is None or not (state.is_selected or state.is_refused):
        return "base_model_deselected", f"{named} was deselected while the analysis waited for it."
    if state.is_refused:
        return "base_model_unusable", f"{named} could not be prepared: {state.failure}"
    if state.is_ready and state.revision != analysis.revision:
        return "base_model_moved", f"The analysis is of {named} at {analysis.revision}, and the box now holds " \
                                   f"{state.revision}."
    return None


def _fail(analysis: Analysis, code: str, reason: str) -> None:
    try:
        with transaction.atomic():
            move(analysis, phases.FAILED, phases=phases.PHASES, actor=SYSTEM, reason=reason, failure_code=code,
                 failure_reason=reason)
            doorbell.ring_control()
    except PhaseConflict:
        return  # its base model became ready meanwhile, and a worker took it
