"""Evaluations and trials among the claims that `capacity` shows."""

from typing import Any

from evaluations import phases
from evaluations.models import Evaluation, Trial
from optimize_site.kernel.models import Lease
from registry.model_queries import workload_of


def list_claims(workload: str) -> list[dict[str, Any]]:
    """Every evaluation and trial that holds or waits for a device; of one workload, by name or ID, or of all."""
    waiting = (phases.AWAITING_CAPACITY, phases.STARTING_JOB, phases.EVALUATING)
    evaluations = Evaluation.objects.filter(phase__in=waiting).select_related("workload").order_by("queued_at")
    trials = Trial.objects.filter(phase__in=waiting).select_related("model__artifact").order_by("queued_at")
    claims = [_claim("EVALUATION", "evaluation", row, row.workload) for row in evaluations]
    claims += [_claim("TRIAL", "trial", row, workload_of(row.model)) for row in trials]
    return [claim for claim in claims if not workload or claim["workload"] == workload
            or claim["workloadId"].startswith(workload)]


def _claim(kind: str, holder: str, row: Any, workload: Any) -> dict[str, Any]:
    held = Lease.objects.filter(holder_kind=holder, holder_id=row.pk, released_at=None)
    lease = held.select_related("device").first()
    return {"kind": kind, "workId": row.pk, "workload": workload.name if workload else "",
            "workloadId": workload.pk if workload else "", "devices": 1, "pool": lease.device.profile if lease else "",
            "state": "GRANTED" if lease else "QUEUED", "since": lease.acquired_at if lease else row.queued_at}
