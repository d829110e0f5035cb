"""Routes of snapshots. A snapshot is named by its ID or the beginning of it."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from optimize_site.kernel.api import Body
from optimize_site.kernel.auth import actor_of
from runs import operations, queries, render

router = Router(tags=["snapshots"])


class Kind(Body):
    """One kind of a snapshot, `weights` or `trainingState`; left out, both."""

    kind: str = ""


class Release(Body):
    """Whose hold to clear: the ID of a run or a model, or the beginning of it."""

    owner: str
    kind: str = ""


@router.get("/{snapshot_id}")
def get_snapshot(request: HttpRequest, snapshot_id: str) -> dict[str, Any]:
    """Where a snapshot comes from, what it holds, who holds it."""
    return render.snapshot_record(queries.get_snapshot(snapshot_id))


@router.post("/{snapshot_id}/pin")
def pin_snapshot(request: HttpRequest, snapshot_id: str, payload: Kind) -> dict[str, Any]:
    """Keep a snapshot whatever retention says."""
    return _record(operations.pin_snapshot(queries.get_snapshot(snapshot_id), kind=payload.kind,
                                           actor=actor_of(request)))


@router.post("/{snapshot_id}/unpin")
def unpin_snapshot(request: HttpRequest, snapshot_id: str, payload: Kind) -> dict[str, Any]:
    """Leave a snapshot to retention again."""
    return _record(operations.unpin_snapshot(queries.get_snapshot(snapshot_id), kind=payload.kind,
                                             actor=actor_of(request)))


@router.post("/{snapshot_id}/release")
def release_snapshot(request: HttpRequest, snapshot_id: str, payload: Release) -> dict[str, Any]:
    """Clear a hold that was left behind."""
    return _record(operations.release_snapshot(queries.get_snapshot(snapshot_id), payload.owner, kind=payload.kind,
                                               actor=actor_of(request)))


@router.post("/{snapshot_id}/register", response={202: dict[str, Any]})
def register_snapshot(request: HttpRequest, snapshot_id: str) -> Status[dict[str, Any]]:
    """Ask for a model of the snapshot's weights."""
    candidate = operations.register_candidate(queries.get_snapshot(snapshot_id), actor=actor_of(request))
    return Status(202, render.candidate_document(candidate))


@router.get("/{snapshot_id}/candidate")
def get_candidate(request: HttpRequest, snapshot_id: str) -> dict[str, Any]:
    """How the registration of a snapshot stands."""
    return render.candidate_document(operations.get_candidate(queries.get_snapshot(snapshot_id)))


def _record(snapshot: Any) -> dict[str, Any]:
    return render.snapshot_record(queries.get_snapshot(snapshot.pk))
