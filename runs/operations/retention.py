"""Keeping storage bounded: the newest saves of a run stay, and whatever somebody needs; the rest is removed."""

import logging
import shutil
from pathlib import Path

from django.db import transaction
from django.db.models import Exists, OuterRef

from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import SYSTEM
from runs import queries
from runs.models import Run, Snapshot
from runs.operations.candidates import advance_candidates
from runs.phases import PHASES
from runs.snapshots import FILES, KINDS, MANIFESTS, TRAINING_STATE, WEIGHTS, kinds_of

log = logging.getLogger(__name__)


def tend_snapshots() -> None:
    """One control pass over snapshots: models that were asked for, and what retention removes."""
    advance_candidates()
    sweep_all()


def sweep_all() -> None:
    """One pass over the runs whose snapshots may have become too many: the open ones, and those that have ended or of
    which one was released since the last look."""
    due = Run.objects.filter(retention_due_at__isnull=False)
    kept = Exists(Snapshot.objects.filter(run=OuterRef("pk"), removed_at=None))
    for run in due.filter(kept):
        sweep_run(run)
        if run.phase in PHASES.terminal:
            due.filter(pk=run.pk, retention_due_at=run.retention_due_at).update(retention_due_at=None)
    due.filter(~kept, phase__in=PHASES.terminal).update(retention_due_at=None)


def sweep_run(run: Run) -> None:
    """Remove what the run's keep counts leave over and nobody holds."""
    snapshots = list(run.snapshots.filter(removed_at=None).order_by("-step", "-attempt").select_related("run")
                     .prefetch_related("holds"))
    newest = queries.newest_restorable(run).first()
    keep = {WEIGHTS: run.execution["keepAdapters"], TRAINING_STATE: run.execution["keepTrainingStates"]}
    for kind in KINDS:
        holding = [snapshot for snapshot in snapshots if kind in kinds_of(snapshot)]
        free = [snapshot for snapshot in holding if not is_needed(snapshot, kind, newest)]
        for snapshot in free[keep[kind]:]:
            sweep_kind(snapshot, kind)


def is_needed(snapshot: Snapshot, kind: str, newest: Snapshot | None) -> bool:
    """Whether somebody holds this kind of the snapshot, or it is `newest`, which its open run would go on from."""
    if kind in snapshot.pinned or any(hold.kind == kind for hold in snapshot.holds.all()):
        return True
    is_next = newest is not None and newest.pk == snapshot.pk and snapshot.run.phase in PHASES.open
    return snapshot.is_final or is_next


def sweep_kind(snapshot: Snapshot, kind: str) -> None:
    """Remove one kind of a snapshot: first from what can be held, then from the disk."""
    with transaction.atomic():
        locked = Snapshot.objects.select_for_update().get(pk=snapshot.pk)
        newest = queries.newest_restorable(locked.run).first()
        if kind not in kinds_of(locked) or is_needed(locked, kind, newest):
            return
        locked.swept = [*locked.swept, kind]
        locked.removed_at = None if kinds_of(locked) else clock.now()
        locked.save(update_fields=["swept", "removed_at"])
        events.record(queries.KIND, locked.run_id, "run.snapshot_swept", actor=SYSTEM,
                      data={"snapshotId": locked.pk, "step": locked.step, "kind": kind})
    remove_files(queries.folder_of_snapshot(locked), kind, whole=locked.removed_at is not None)


def remove_files(folder: Path, kind: str, *, whole: bool) -> None:
    """The manifest goes first: without it the files are nobody's."""
    for name in (MANIFESTS[kind], *FILES[kind]):
        (folder / name).unlink(missing_ok=True)
    if whole:
        shutil.rmtree(folder, ignore_errors=True)
