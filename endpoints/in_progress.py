"""A workload's unfinished trials, for archiving it."""

from collections.abc import Iterator

from endpoints import phases
from endpoints.models import Trial
from optimize_site.kernel.in_progress import InProgress
from registry.model_queries import workload_of
from registry.models import Workload


def trials_in_progress(workload: Workload) -> Iterator[InProgress]:
    """Trials of the workload's models that have not ended; each is over by itself in moments."""
    rows = Trial.objects.filter(phase__in=phases.OPEN, model__artifact__namespace=workload.namespace_id)
    for row in rows.select_related("model__artifact").order_by("created_at"):
        if workload_of(row.model) is not None:
            yield InProgress("trial", row.pk, row.phase, "It ends by itself once it was answered.")
