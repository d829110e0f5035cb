"""A workload's unfinished evaluations and pipelines, for archiving it."""

from collections.abc import Iterator

from evaluations.models import Pipeline
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
