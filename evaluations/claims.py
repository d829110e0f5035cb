"""Evaluations and trials among the claims that `capacity` shows."""

from typing import Any

from evaluations import phases
from evaluations.models import Evaluation, Trial
from optimize_site.kernel.models import Lease
from registry.model_queries import workload_of
from registry.models import Version, Workload


def list_claims(workload: str) -> list[dict[str, Any]]:
    """Every evaluation and trial that holds or waits for a device; of one workload, by name or ID, or of all."""
    waiting = (phases.AWAITING_CAPACITY, phases.STARTING_JOB, phases.EVALUATING)
    evaluations = Evaluation.objects.filter(phase__in=waiting).order_by("queued_at")
    evaluations = evaluations.select_related("workload", "model__artifact")
    trials = Trial.objects.filter(phase__in=waiting).select_related("model__artifact").order_by("queued_at")
    claims = [_claim("EVALUATION", "evaluation", row, row.workload, row.model) for row in evaluations]
    claims += [_claim("TRIAL", "trial", row, workload_of(row.model), row.model) for row in trials]
    return [claim for claim in claims if not workload or claim["workload"] == workload
            or claim["workloadId"].startswith(workload)]


def _claim(kind: str, holder: str, row: Any, workload: Workload | None, model: Version) -> dict[str, Any]:
    held = Lease.objects.filter(holder_kind=holder, holder_id=row.pk, released_at=None)
    lease = held.select_related("device").first()
    return {"kind": kind, "for": model.reference, "workId": row.pk, "workload": workload.name if workload else "",
            "workloadId": workload.pk if workload else "", "devices": 1, "pool": lease.device.profile if lease else "",
            "state": "GRANTED" if lease else "QUEUED", "since": lease.acquired_at if lease else row.queued_at}
