"""Making a model of a snapshot: asked for at once, copied by a control step, the same however often it is asked."""

from django.db import transaction

from optimize_site.kernel import doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.errors import NotFound, OperationError
from optimize_site.kernel.ids import derived_id
from registry.models import Version
from registry.operations.namespaces import check_open
from registry.operations.workloads import check_takes_work
from runs import queries
from runs.errors import KindMissing, SmokeSnapshot
from runs.models import Candidate, Snapshot
from runs.operations.holds import CANDIDATE, hold_snapshot, let_go
from runs.operations.recording import register_adapter
from runs.snapshots import WEIGHTS, kinds_of, verify_kind


@transaction.atomic
def register_candidate(snapshot: Snapshot, *, actor: Actor) -> Candidate:
    """Ask for a model of a snapshot's weights. Asked again, it is the same one; a failed one is tried again.

    Raises KindMissing where the snapshot holds no weights, SmokeSnapshot, WorkloadArchived, NamespaceArchived.
    """
    actor.require("operator")
    if WEIGHTS not in kinds_of(snapshot):
        raise KindMissing(f"The snapshot {snapshot.pk[:12]} of step {snapshot.step} holds no weights; a model is made "
                          "of them.", hint="Choose a snapshot that lists weights.")
    if snapshot.run.smoke is not None:
        raise SmokeSnapshot(f"The snapshot {snapshot.pk[:12]} is of a smoke check, which has a slice of its rows by "
                            "heart; no model is made of it.", hint="Choose a snapshot of a run.")
    candidate, is_new = Candidate.objects.get_or_create(snapshot=snapshot, defaults={
        "id": derived_id("model", snapshot.pk), "phase": Candidate.REGISTERING, "created_by": actor.name})
    if is_new or candidate.phase == Candidate.FAILED:
        workload = snapshot.run.workload
        check_takes_work(workload.pk)
        check_open(workload.namespace_id)
        hold_snapshot(snapshot, [WEIGHTS], holder_kind=CANDIDATE, holder_id=candidate.pk)
        Candidate.objects.filter(pk=candidate.pk).update(phase=Candidate.REGISTERING, reason="")
        events.record(queries.KIND, snapshot.run_id, "run.candidate_requested", actor=actor,
                      data={"snapshotId": snapshot.pk, "modelId": candidate.pk})
        doorbell.ring_control()
    candidate.refresh_from_db()
    return candidate


def get_candidate(snapshot: Snapshot) -> Candidate:
    """The registration of a snapshot. Raises NotFound where none was asked for."""
    found = Candidate.objects.filter(snapshot=snapshot).select_related("version__artifact").first()
    if found is None:
        raise NotFound(f"Nobody has registered the snapshot {snapshot.pk[:12]}.", code="candidate_unknown",
                       hint=f"`./optimize snapshots register {snapshot.pk[:12]}` does.")
    return found


def advance_candidates() -> None:
    """Copy what was asked for. A failure is told and keeps its source, so that it can be tried again."""
    for candidate in Candidate.objects.filter(phase=Candidate.REGISTERING).select_related("snapshot__run__workload"):
        try:
            _end(candidate, Candidate.REGISTERED, version=_register(candidate))
        except (OperationError, OSError) as error:
            _end(candidate, Candidate.FAILED, reason=getattr(error, "detail", None) or str(error))


def _register(candidate: Candidate) -> Version:
    snapshot = candidate.snapshot
    folder = queries.folder_of_snapshot(snapshot)
    verify_kind(folder, WEIGHTS, snapshot.manifest_sha256)
    return register_adapter(snapshot.run, snapshot, model_id=candidate.pk)


def _end(candidate: Candidate, phase: str, *, version: Version | None = None, reason: str = "") -> None:
    with transaction.atomic():
        changed = Candidate.objects.filter(pk=candidate.pk, phase=Candidate.REGISTERING).update(
            phase=phase, version=version, reason=reason)
        if not changed:
            return
        if phase == Candidate.REGISTERED:
            let_go(holder_kind=CANDIDATE, holder_id=candidate.pk)
        events.record(queries.KIND, candidate.snapshot.run_id, f"run.candidate_{phase.lower()}", actor=SYSTEM,
                      reason=reason, data={"snapshotId": candidate.snapshot_id, "modelId": candidate.pk,
                                           "model": version.reference if version else None})

