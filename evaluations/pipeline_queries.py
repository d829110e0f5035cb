"""Reads of pipelines."""

from django.db.models import QuerySet

from evaluations.models import Evaluation, Pipeline, Stage
from evaluations.pipeline_phases import PIPELINE, RUNNING
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.ids import find_by_prefix
from registry.workload_queries import get_workload
from runs.models import Run
from runs.queries import cost_of


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


def submission_of(stage: Stage, number: int) -> str:
    """Under which the work of a stage's try is started."""
    return f"{stage.pipeline_id[:32]}-{stage.position}-{number}"


def cost_of_tries(stage: Stage) -> tuple[float, float | None]:
    """Device seconds of all tries of a stage, and what its runs cost; None where it has had none."""
    runs, rows = [stage.run] if stage.run else [], [stage.evaluation] if stage.evaluation else []
    if stage.number > 1:
        earlier = [submission_of(stage, number) for number in range(1, stage.number)]
        runs += Run.objects.filter(pipeline_id=stage.pipeline_id, submission_id__in=earlier)
        rows += Evaluation.objects.filter(workload=stage.pipeline.workload, submission_id__in=earlier)
    costs = [cost_of(run) for run in runs]
    seconds = sum(cost["deviceSeconds"] for cost in costs) + sum(row.device_seconds for row in rows)
    return seconds, round(sum(cost["amount"] for cost in costs), 4) if costs else None


def _pipelines() -> QuerySet[Pipeline]:
    return Pipeline.objects.select_related("workload").prefetch_related("stages__run", "stages__model__artifact",
                                                                        "stages__evaluation")
