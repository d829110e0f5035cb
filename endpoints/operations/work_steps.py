"""Steps that all work that asks a model shares: waiting for the base model, queueing, cancelling."""

from typing import Any

from endpoints import phases
from endpoints.errors import BaseModelNotReady, TemplateMismatch
from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.errors import PhaseConflict
from optimize_site.kernel.line import end_of_line
from optimize_site.kernel.models import Device
from optimize_site.kernel.phases import PhaseTable, move
from registry.base_model_queries import BaseModelState, base_model_state
from registry.model_queries import serving_of
from registry.models import Version


def usable_base(version: Version) -> BaseModelState:
    """The selected base model that a model stands on. Raises BaseModelNotReady, TemplateMismatch."""
    repository = serving_of(version).base_model
    state = base_model_state(repository)
    if state is None or not state.is_allowed:
        raise BaseModelNotReady(f"This box does not allow {repository}, which {version.reference} stands on.",
                                hint="`base-models list --all` shows what is allowed.", code="base_model_not_allowed")
    if not state.is_selected:
        raise BaseModelNotReady(f"{repository}, which {version.reference} stands on, is not selected."
                                + (f" {state.failure}" if state.is_refused else ""),
                                hint=f"Run `base-models select {repository} --wait`.")
    check_profile(version, state)
    return state


def check_profile(version: Version, state: BaseModelState) -> None:
    """Refuse to ask a model under another chat template than it was trained under. Raises TemplateMismatch.

    The profile is what the prepared base model renders prompts with. The commit to set is the one it was trained on, or
    for a base model the one the catalog pins.
    """
    if not state.is_ready:
        return
    trained = version.lineage.get("chatTemplateSha256") or (state.entry.chat_template_sha256 if state.entry else "")
    found = state.facts.get("chatTemplateSha256", "")
    if not trained or not found or trained == found:
        return
    wanted = version.lineage.get("baseRevision") or (state.entry.revision if state.entry else "")
    raise TemplateMismatch(
        f"{state.repository} at {state.revision[:12]} renders prompts under the chat template {found[:12]}; "
        f"{version.reference} was trained under {trained[:12]}.",
        hint=f"Set baseModelRevision to {wanted}: pin that revision in the catalog and select the base model again.",
        baseModelRevision=wanted)


def send_back(row: Any, table: PhaseTable, repository: str) -> None:
    """A queued row whose base model is not ready any more waits for that first, or fails with it."""
    state = base_model_state(repository)
    if row.phase == phases.AWAITING_CAPACITY and (state is None or not state.is_ready):
        move(row, phases.AWAITING_BASE_MODEL, phases=table, actor=SYSTEM, reason=f"{repository} is not ready any more")


def await_device(row: Any, table: PhaseTable) -> None:
    """A queued row fails once the box has no device left that answers; any device will do for it."""
    if row.phase != phases.AWAITING_CAPACITY or Device.objects.for_models().filter(is_present=True).exists():
        return
    why = f"The {table.kind} waits for a device, and this box now has none."
    move(row, phases.FAILED, phases=table, actor=SYSTEM, reason=why, failure_code="devices_gone", failure_reason=why,
         failure_hint="Bring a device back and start it again; `./optimize info` lists the devices.")


def await_base(row: Any, table: PhaseTable, repository: str) -> BaseModelState | None:
    """The ready base model of a waiting row; None where it is still being prepared, or where the row failed over it."""
    state = base_model_state(repository)
    if state is not None and state.is_ready and state.is_selected:
        return state
    if state is None or not state.is_selected:
        why = state.failure if state is not None and state.is_refused else f"{repository} is not selected any more."
        move(row, phases.FAILED, phases=table, actor=SYSTEM, reason=why, failure_code="base_model_missing",
             failure_reason=why, failure_hint=f"Run `base-models select {repository} --wait` and start again.")
        return None
    waits = f"{repository} is being prepared."
    if row.wait_reason != waits:
        type(row).objects.filter(pk=row.pk).update(wait_reason=waits)
        row.wait_reason = waits
    return None


def queue(row: Any, table: PhaseTable, **columns: Any) -> None:
    """Into the line for a device, at its end."""
    go_back(row, table, queued_at=end_of_line(), **columns)


def go_back(row: Any, table: PhaseTable, **columns: Any) -> None:
    """Into the line for a device, at the place that the work had in it."""
    move(row, phases.AWAITING_CAPACITY, phases=table, actor=SYSTEM, wait_reason="", **columns)
    doorbell.ring_devices()


def cancel(row: Any, table: PhaseTable, actor: Actor) -> None:
    """End a waiting row at once, ask a running job to stop. Cancelling twice changes nothing; `row` is locked.

    Raises PhaseConflict where the work already ended otherwise.
    """
    actor.require("operator")
    if row.phase == phases.CANCELLED or (row.cancel_requested_at is not None and row.phase in table.active):
        return
    if row.phase in phases.ENDS:
        raise PhaseConflict(f"The {table.kind} {row.pk[:12]} is {row.phase} already.", phase=row.phase)
    if row.phase in table.active:
        type(row).objects.filter(pk=row.pk).update(cancel_requested_at=clock.now())
        events.record(table.kind, row.pk, f"{table.kind}.cancel_requested", actor=actor)
        row.refresh_from_db()
        doorbell.ring_devices()
    else:
        move(row, phases.CANCELLED, phases=table, actor=actor, cancel_requested_at=clock.now())
