"""Reads of pipelines."""

from django.db.models import QuerySet

from evaluations.models import Pipeline
from evaluations.pipeline_phases import PIPELINE, RUNNING
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.ids import find_by_prefix
from registry.workload_queries import get_workload


def list_pipelines(*, phase: str = "", workload: str = "", archived: bool = False) -> QuerySet[Pipeline]:
    """Pipelines, newest first: of one phase or all `open` ones, of one workload. Raises NotFound, InvalidInput."""
    rows = _pipelines().order_by("-created_at", "pk")
    if workload:
        rows = rows.filter(workload=get_workload(workload))
    elif not archived:
        rows = rows.filter(workload__archived_at=None)
    wanted = phase.strip().upper()
    if wanted and wanted not in {"OPEN", *PIPELINE.next}:
        raise InvalidInput(f"{phase!r} is no phase of a pipeline.", code="unknown_phase",
                           hint=f"open, or one of {', '.join(PIPELINE.next)}.")
    if not wanted:
        return rows
    return rows.filter(phase=RUNNING if wanted == "OPEN" else wanted)


def get_pipeline(text: str) -> Pipeline:
    """The pipeline whose ID is, or begins with, `text`. Raises NotFound, AmbiguousPrefix."""
    return find_by_prefix(_pipelines(), text.strip().lower(), noun="pipeline")


def _pipelines() -> QuerySet[Pipeline]:
    return Pipeline.objects.select_related("workload").prefetch_related("stages__run", "stages__model__artifact",
                                                                        "stages__evaluation")
