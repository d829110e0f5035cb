"""Pipelines as documents."""

from typing import Any

from evaluations.models import Pipeline, Stage
from evaluations.operations.pipelines import Checked
from evaluations.pipeline_descriptor import parse_pipeline
from evaluations.pipeline_queries import cost_of_tries


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
    seconds, amount = cost_of_tries(stage)
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


def checked_document(checked: Checked, *, resolved: bool) -> dict[str, Any]:
    """The answer to a dry run. What would be trained is shown for stages over a registered dataset."""
    hidden = {"stated"} if resolved else {"stated", "resolved"}
    stages = [{key: value for key, value in stage.items() if key not in hidden} for stage in checked.stages]
    problems = [{"path": problem.path, "code": problem.code, "message": problem.message, "hint": problem.hint}
                for problem in checked.problems]
    return {"valid": not problems, "problems": problems, "stages": stages}
