"""Selecting base models, and the control step that looks after the prepared ones."""

from typing import Any

from django.db import transaction

from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import PhaseConflict, Refused
from optimize_site.kernel.line import end_of_line
from optimize_site.kernel.phases import move
from registry import phases
from registry.base_model_queries import BaseModelState, entry_id, get_base_model, list_base_models
from registry.models import BaseModel
from registry.operations.models import reference_name, register_base_model
from registry.operations.namespaces import check_open
from registry.references import parse_artifact


@transaction.atomic
def select_base_model(text: str, *, actor: Actor) -> BaseModelState:
    """Ask for an allowed base model to be prepared; asking again changes nothing.

    Raises NotFound for one that the catalog does not know, Refused for one that it does not allow, NamespaceArchived
    where its version would be registered in an archived namespace.
    """
    actor.require("admin")
    state = get_base_model(text)
    if not state.is_allowed:
        allowed = ", ".join(other.repository for other in list_base_models(every=True) if other.is_allowed)
        raise Refused(f"This box does not allow {state.repository}.", code="base_model_not_allowed",
                      hint=f"Allowed here: {allowed}. An operator can allow it in the state folder's catalog.")
    row = _row_of(state.repository)
    if row.cancel_requested_at is not None:
        BaseModel.objects.filter(pk=row.pk).update(cancel_requested_at=None)
        row.refresh_from_db()
    if row.phase in {phases.DESELECTED, *phases.REFUSED} or row.selected_at is None:
        _take_up(row, state, actor)
    return get_base_model(state.repository)


def _row_of(repository: str) -> BaseModel:
    """The row of a repository, locked; made in PENDING the first time."""
    BaseModel.objects.get_or_create(repository=repository, defaults={
        "id": entry_id(repository), "phase": phases.DESELECTED})
    return BaseModel.objects.select_for_update().get(repository=repository)


def _take_up(row: BaseModel, state: BaseModelState, actor: Actor) -> None:
    """READY at once where the pinned commit still lies here, else into the queue. Raises NamespaceArchived."""
    now = clock.now()
    chosen: dict[str, Any] = {"selected_by": actor.name, "selected_at": now, "failure_code": "", "failure_reason": "",
                              "progress": {}}
    pinned = state.entry.revision if state.entry is not None else ""
    is_same = pinned in {None, "", row.revision}
    if row.phase in {phases.DESELECTED, phases.UNAVAILABLE} and _is_on_disk(row) and is_same:
        move(row, phases.READY, phases=phases.PHASES, actor=actor, reason="its weights are still here",
             version=register_base_model(row, actor=SYSTEM), **chosen)
        doorbell.ring_control()
        return
    if row.version_id is None or not is_same:  # its end registers a version
        check_open(parse_artifact(reference_name(row.repository)).namespace)
    move(row, phases.PENDING, phases=phases.PHASES, actor=actor, queued_at=end_of_line(), **chosen)
    doorbell.ring_devices()


@transaction.atomic
def deselect_base_model(text: str, *, actor: Actor) -> BaseModelState:
    """Back to "allowed, not chosen". What was registered stays; work queued behind it fails when it next looks.

    A preparation under way is stopped first. Deselecting twice changes nothing.
    """
    actor.require("admin")
    state = get_base_model(text)
    if state.row is None or state.phase == phases.DESELECTED:
        return state
    row = BaseModel.objects.select_for_update().get(pk=state.row.pk)
    if row.phase == phases.DESELECTED or row.cancel_requested_at is not None:
        return get_base_model(state.repository)  # somebody else was faster
    if row.phase in phases.PHASES.active:
        BaseModel.objects.filter(pk=row.pk).update(cancel_requested_at=clock.now())
        events.record("base_model", row.pk, "base_model.deselect_requested", actor=actor)
    else:
        move(row, phases.DESELECTED, phases=phases.PHASES, actor=actor, queued_at=None, cancel_requested_at=None)
    doorbell.ring_control()
    return get_base_model(state.repository)


def advance_base_models() -> None:
    """Prepare again what is selected but gone from the disk, as after a restore."""
    for row in BaseModel.objects.filter(phase=phases.READY):
        if _is_on_disk(row):
            continue
        try:
            with transaction.atomic():
                move(row, phases.PENDING, phases=phases.PHASES, actor=SYSTEM, queued_at=end_of_line(),
                     reason="its weights are gone from the disk")
                doorbell.ring_devices()
        except PhaseConflict:
            continue  # somebody deselected it meanwhile


def _is_on_disk(row: BaseModel) -> bool:
    return bool(row.folder) and (home() / row.folder / "config.json").is_file()
