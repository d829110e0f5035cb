"""Pipelines as documents."""

from typing import Any

from evaluations.models import Evaluation, Pipeline, Stage
from evaluations.operations.pipelines import Checked, submission_of
from evaluations.pipeline_descriptor import parse_pipeline
from runs.models import Run
from runs.queries import cost_of


def pipeline_row(row: Pipeline) -> dict[str, Any]:
    """A pipeline in a list."""
    stages = list(row.stages.all())
    done = sum(stage.state == Stage.State.COMPLETED for stage in stages)
    present = next((stage.name for stage in stages if stage.state == Stage.State.RUNNING), None)
    return {"pipelineId": row.pk, "phase": row.phase, "workload": row.workload.name,
            "isArchived": row.workload.archived_at is not None, "stagesDone": done, "stagesTotal": len(stages),
            "stage": present, "description": row.description, "failureReason": row.failure_reason or None,
            "isCancelling": row.cancel_requested_at is not None and row.ended_at is None,
            "createdBy": row.created_by, "createdAt": row.created_at, "endedAt": row.ended_at}


def pipeline_document(row: Pipeline) -> dict[str, Any]:
    """A pipeline whole: where each stage stands, what it made, what it cost."""
    stages = [stage_document(stage) for stage in row.stages.all()]
    return pipeline_row(row) | {
        "stages": stages, "failureCode": row.failure_code or None, "submissionId": row.submission_id or None,
        "cost": {"deviceSeconds": round(sum(stage["deviceSeconds"] for stage in stages), 1),
                 "amount": round(sum(stage["cost"] or 0 for stage in stages), 4)}}


def stage_document(stage: Stage) -> dict[str, Any]:
    """One stage: the work that carries it out, its output, and what all its tries cost."""
    run, row = stage.run, stage.evaluation
    seconds, amount = _cost(stage)
    fields = parse_pipeline(stage.pipeline.descriptor).stages[stage.position].fields
    return {"name": stage.name, "type": stage.type, "position": stage.position, "state": stage.state,
            "attempt": stage.number, "runId": run.pk if run else None, "runPhase": run.phase if run else None,
            "step": run.observed_step if run else None, "totalSteps": run.total_steps if run else None,
            "evaluationId": row.pk if row else None, "evaluationPhase": row.phase if row else None,
            "answered": row.num_answered if row else None, "rows": row.num_rows if row else None,
            "modelId": stage.model_id, "model": stage.model.reference if stage.model else None,
            "meanScore": stage.mean_score, "minMeanScore": fields.get("minMeanScore"), "reason": stage.reason or None,
            "deviceSeconds": round(seconds, 1), "cost": amount, "startedAt": stage.started_at,
            "endedAt": stage.ended_at}


def _cost(stage: Stage) -> tuple[float, float | None]:
    """Device seconds of all tries of a stage, and what its runs cost; None where it has had none."""
    runs, rows = [stage.run] if stage.run else [], [stage.evaluation] if stage.evaluation else []
    if stage.number > 1:
        earlier = [submission_of(stage, number) for number in range(1, stage.number)]
        runs += Run.objects.filter(pipeline_id=stage.pipeline_id, submission_id__in=earlier)
        rows += Evaluation.objects.filter(workload=stage.pipeline.workload, submission_id__in=earlier)
    costs = [cost_of(run) for run in runs]
    seconds = sum(cost["deviceSeconds"] for cost in costs) + sum(row.device_seconds for row in rows)
    return seconds, round(sum(cost["amount"] for cost in costs), 4) if costs else None


def checked_document(checked: Checked, *, resolved: bool) -> dict[str, Any]:
    """The answer to a dry run. What would be trained is shown for stages over a registered dataset."""
    hidden = {"stated"} if resolved else {"stated", "resolved"}
    stages = [{key: value for key, value in stage.items() if key not in hidden} for stage in checked.stages]
    problems = [{"path": problem.path, "code": problem.code, "message": problem.message, "hint": problem.hint}
                for problem in checked.problems]
    return {"valid": not problems, "problems": problems, "stages": stages}
