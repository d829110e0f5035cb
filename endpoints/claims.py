"""Trials and judges among the claims that `capacity` shows, and the form of such a claim."""

from typing import Any

from endpoints import phases
from endpoints.models import Judge, Trial
from optimize_site.kernel.models import Lease
from registry.model_queries import workload_of
from registry.models import Workload

CLAIMING = (phases.AWAITING_CAPACITY, phases.STARTING_JOB, phases.EVALUATING)
"""Phases in which work that asks a model waits for a device or holds one."""


def list_claims(workload: str) -> list[dict[str, Any]]:
    """Every trial that holds or waits for a device; of one workload, by name or ID, or of all."""
    rows = Trial.objects.filter(phase__in=CLAIMING).select_related("model__artifact").order_by("queued_at")
    return of_workload(workload, [claim_of("trial", row, workload_of(row.model), row.model.reference) for row in rows])


def list_judge_claims(workload: str) -> list[dict[str, Any]]:
    """Every judge that holds or waits for a device, with whom it is held for: it belongs to no workload of its own."""
    rows = Judge.objects.filter(ended_at=None).exclude(phase=phases.AWAITING_BASE_MODEL)
    claims = [claim_of("judge", row, None, row.model.reference) | {"heldFor": {"kind": row.holder_kind.upper(),
                                                                               "workId": row.holder_id}}
              for row in rows.select_related("model__artifact").order_by("queued_at")]
    return [] if workload else claims


def of_workload(workload: str, claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the workload with this name or beginning of an ID; all for an empty text."""
    return [claim for claim in claims if not workload or claim["workload"] == workload
            or claim["workloadId"].startswith(workload)]


def claim_of(kind: str, row: Any, workload: Workload | None, model: str) -> dict[str, Any]:
    """One claim, as `capacity` shows it."""
    held = Lease.objects.filter(holder_kind=kind, holder_id=row.pk, released_at=None)
    lease = held.select_related("device").first()
    return {"kind": kind.upper(), "for": model, "workId": row.pk,
            "workload": workload.name if workload else "", "workloadId": workload.pk if workload else "",
            "devices": 1, "pool": lease.device.profile if lease else "",
            "state": "GRANTED" if lease else "QUEUED", "since": lease.acquired_at if lease else row.queued_at}
