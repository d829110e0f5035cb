"""Comparisons as documents: the contract, the targets with their scores, what differs, what it cost."""

from typing import Any

from evaluations.models import Comparison, Target
from evaluations.operations.comparisons import winner_of
from runs.differences import differences
from runs.models import Run


def comparison_row(row: Comparison) -> dict[str, Any]:
    """A comparison in a list."""
    winner = winner_of(row)
    return {"comparisonId": row.pk, "phase": row.phase, "workload": row.workload.name,
            "isArchived": row.workload.archived_at is not None,
            "sourceRunId": row.source.run_id, "sourceSnapshotId": row.source_id, "sourceStep": row.source.step,
            "dataset": row.dataset.reference, "grader": row.grader, "targets": row.targets.count(), "fan": row.fan,
            "winnerRunId": winner.run_id if winner else None, "winnerModelId": winner.model_id if winner else None,
            "createdBy": row.created_by,
            "createdAt": row.created_at, "endedAt": row.ended_at, "failureReason": row.failure_reason or None}


def comparison_document(row: Comparison) -> dict[str, Any]:
    """A comparison whole."""
    targets = list(row.targets.select_related("run", "model__artifact", "evaluation"))
    source = row.source.run
    return comparison_row(row) | {
        "contract": {"datasetHash": row.dataset.content_hash, "grader": row.grader,
                     "maxCompletionTokens": row.max_new_tokens or None},
        "targets": [target_document(target, source) for target in targets],
        "cost": {"trainingDeviceSeconds": round(sum(run.device_seconds for run in {one.run for one in targets}), 1),
                 "evaluationDeviceSeconds": round(sum(target.evaluation.device_seconds for target in targets
                                                      if target.evaluation), 1)}}


def target_document(target: Target, source: Run) -> dict[str, Any]:
    """One target; `differences` are the settings in which its run is unlike the source's."""
    return {"kind": target.kind, "state": target.state, "runId": target.run_id, "modelId": target.model_id,
            "model": target.model.reference if target.model else None, "configName": target.run.config_name,
            "evaluationId": target.evaluation_id, "meanScore": target.mean_score, "reason": target.reason or None,
            "differences": [] if target.kind == "source" else differences(source.config, target.run.config)}
