"""A workload's unfinished evaluations, for archiving it."""

from collections.abc import Iterator

from evaluations.queries import list_evaluations
from optimize_site.kernel.in_progress import InProgress
from registry.models import Workload


def evaluations_in_progress(workload: Workload) -> Iterator[InProgress]:
    """Evaluations that have not ended."""
    for row in list_evaluations(phase="open", workload=workload).order_by("created_at"):
        yield InProgress("evaluation", row.pk, row.phase, f"`./optimize evaluations cancel {row.pk[:12]}` ends it.")
