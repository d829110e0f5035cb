"""A workload's unfinished evaluations, comparisons and pipelines, for archiving it."""

from collections.abc import Iterator

from evaluations.comparison_phases import COMPARISON
from evaluations.models import Comparison, Pipeline
from evaluations.pipeline_phases import RUNNING
from evaluations.queries import list_evaluations
from optimize_site.kernel.in_progress import InProgress
from registry.models import Workload


def pipelines_in_progress(workload: Workload) -> Iterator[InProgress]:
    """Pipelines that have not ended."""
    for row in Pipeline.objects.filter(workload=workload, phase=RUNNING).order_by("created_at"):
        yield InProgress("pipeline", row.pk, row.phase, f"`./optimize pipelines cancel {row.pk[:12]}` ends it.")


def evaluations_in_progress(workload: Workload) -> Iterator[InProgress]:
    """Evaluations that have not ended."""
    for row in list_evaluations(phase="open", workload=workload).order_by("created_at"):
        yield InProgress("evaluation", row.pk, row.phase, f"`./optimize evaluations cancel {row.pk[:12]}` ends it.")


def comparisons_in_progress(workload: Workload) -> Iterator[InProgress]:
    """Comparisons that have not ended; their evaluations may not have begun."""
    for row in Comparison.objects.filter(workload=workload, phase__in=COMPARISON.open).order_by("created_at"):
        yield InProgress("comparison", row.pk, row.phase, f"It ends with its evaluations; `./optimize comparisons get "
                         f"{row.pk[:12]}` shows them.")
