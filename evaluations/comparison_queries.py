"""Reads of comparisons."""

from django.db.models import QuerySet

from evaluations.models import Comparison
from optimize_site.kernel.ids import find_by_prefix
from registry.workload_queries import get_workload


def list_comparisons(*, workload: str = "", archived: bool = False) -> QuerySet[Comparison]:
    """Comparisons, newest first; of one workload. Raises NotFound.

    Without `archived`, those of archived workloads are left out, unless such a workload is named.
    """
    rows = _comparisons().order_by("-created_at", "pk")
    if workload:
        return rows.filter(workload=get_workload(workload))
    return rows if archived else rows.filter(workload__archived_at=None)


def get_comparison(text: str) -> Comparison:
    """The comparison whose ID is, or begins with, `text`. Raises NotFound, AmbiguousPrefix."""
    return find_by_prefix(_comparisons(), text.strip().lower(), noun="comparison")


def _comparisons() -> QuerySet[Comparison]:
    return Comparison.objects.select_related("workload", "source__run", "dataset__artifact")
