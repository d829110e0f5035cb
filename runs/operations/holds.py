"""Who still needs a snapshot: branches that start from it, registrations that copy it, operators who pinned it."""

from collections.abc import Iterable

from django.db import transaction

from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import NotFound
from runs import queries
from runs.errors import HoldStands, KindMissing, KindUnknown
from runs.models import Candidate, Run, Snapshot, SnapshotHold
from runs.phases import PHASES
from runs.snapshots import KINDS, kinds_of

RUN, CANDIDATE = "run", "candidate"


def hold_snapshot(snapshot: Snapshot, kinds: Iterable[str], *, holder_kind: str, holder_id: str) -> None:
    """Keep kinds of a snapshot from being removed. Inside a transaction. Raises KindMissing where one is gone."""
    locked = Snapshot.objects.select_for_update().get(pk=snapshot.pk)
    _require_held(locked, kinds)
    for kind in kinds:
        SnapshotHold.objects.get_or_create(snapshot=locked, kind=kind, holder_kind=holder_kind, holder_id=holder_id)


def let_go(*, holder_kind: str, holder_id: str) -> None:
    """A holder needs nothing any more: what it held is left to retention."""
    held = SnapshotHold.objects.filter(holder_kind=holder_kind, holder_id=holder_id)
    with transaction.atomic():
        _leave_to_retention(*held.values_list("snapshot__run_id", flat=True))
        held.delete()


@transaction.atomic
def pin_snapshot(snapshot: Snapshot, *, kind: str = "", actor: Actor) -> Snapshot:
    """Keep a snapshot whatever retention says: both kinds it holds, or the one named. Pinning twice changes nothing.

    Raises KindUnknown, KindMissing (the whole request).
    """
    actor.require("operator")
    locked = Snapshot.objects.select_for_update().get(pk=snapshot.pk)
    kinds = _named(kind) or kinds_of(locked) or list(KINDS)
    _require_held(locked, kinds)
    return _set_pinned(locked, sorted({*locked.pinned, *kinds}), "pinned", actor)


@transaction.atomic
def unpin_snapshot(snapshot: Snapshot, *, kind: str = "", actor: Actor) -> Snapshot:
    """Leave a snapshot to retention again. Raises KindUnknown, KindMissing where it is not pinned."""
    actor.require("operator")
    locked = Snapshot.objects.select_for_update().get(pk=snapshot.pk)
    kinds = _named(kind) or list(locked.pinned)
    if not kinds or not set(kinds) <= set(locked.pinned):
        raise KindMissing(f"The snapshot {snapshot.pk[:12]} is not pinned{f' for its {kind}' if kind else ''}.")
    _leave_to_retention(locked.run_id)
    return _set_pinned(locked, [pinned for pinned in locked.pinned if pinned not in kinds], "unpinned", actor)


def _set_pinned(snapshot: Snapshot, pinned: list[str], what: str, actor: Actor) -> Snapshot:
    if pinned != snapshot.pinned:
        snapshot.pinned = pinned
        snapshot.save(update_fields=["pinned"])
        events.record(queries.KIND, snapshot.run_id, f"run.snapshot_{what}", actor=actor,
                      data={"snapshotId": snapshot.pk, "pinned": pinned})
    return snapshot


@transaction.atomic
def release_snapshot(snapshot: Snapshot, owner: str, *, kind: str = "", actor: Actor) -> Snapshot:
    """Clear a reference that was left behind by a run or a model that no longer needs the snapshot.

    Raises NotFound where nobody of that ID holds it, HoldStands where the holder is still at work.
    """
    actor.require("operator")
    kinds = _named(kind) or list(KINDS)
    found = [hold for hold in snapshot.holds.filter(kind__in=kinds) if hold.holder_id.startswith(owner.lower())]
    if not owner or not found:
        raise NotFound(f"Nothing that begins with {owner!r} holds the snapshot {snapshot.pk[:12]}.",
                       hint="`./optimize snapshots get SNAPSHOT` names its holders.")
    for hold in found:
        _refuse_standing(hold)
        hold.delete()
        events.record(queries.KIND, snapshot.run_id, "run.snapshot_released", actor=actor, data={
            "snapshotId": snapshot.pk, "holder": hold.holder_id, "kind": hold.kind})
    _leave_to_retention(snapshot.run_id)
    return snapshot


def _leave_to_retention(*run_ids: str) -> None:
    """Have retention look at these runs' saves once more, however long ago they ended."""
    if run_ids:
        Run.objects.filter(pk__in=run_ids).update(retention_due_at=clock.now())
        doorbell.ring_control()


def _refuse_standing(hold: SnapshotHold) -> None:
    if hold.holder_kind == RUN:
        run = Run.objects.filter(pk=hold.holder_id).first()
        if run is not None and run.phase in PHASES.open:
            raise HoldStands(f"The run {run.pk[:12]} is {run.phase} and starts from this snapshot.",
                             hint="It lets go by itself when it ends.")
    elif Candidate.objects.filter(pk=hold.holder_id, phase=Candidate.REGISTERING).exists():
        raise HoldStands(f"The model {hold.holder_id[:12]} is still being copied from this snapshot.",
                         hint="It lets go by itself when it is registered.")


def _named(kind: str) -> list[str]:
    if kind and kind not in KINDS:
        raise KindUnknown(f"kind is {kind!r}; it must be {' or '.join(KINDS)}.")
    return [kind] if kind else []


def _require_held(snapshot: Snapshot, kinds: Iterable[str]) -> None:
    gone = [kind for kind in kinds if kind not in kinds_of(snapshot)]
    if gone:
        raise KindMissing(f"The snapshot {snapshot.pk[:12]} of step {snapshot.step} holds no {gone[0]} (any more).",
                          hint="`./optimize runs snapshots RUN` shows what each one holds.")
