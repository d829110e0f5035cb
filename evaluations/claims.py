"""Evaluations among the claims that `capacity` shows."""

from typing import Any

from endpoints.claims import CLAIMING, claim_of, of_workload
from evaluations.models import Evaluation


def list_claims(workload: str) -> list[dict[str, Any]]:
    """Every evaluation that holds or waits for a device; of one workload, by name or ID, or of all."""
    rows = Evaluation.objects.filter(phase__in=CLAIMING).select_related("workload", "model__artifact")
    return of_workload(workload, [claim_of("evaluation", row, row.workload, row.model_name)
                                  for row in rows.order_by("queued_at")])
