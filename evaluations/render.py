"""Evaluations and predictions as documents."""

from typing import Any

from endpoints.render import work_document
from evaluations.models import Evaluation, Prediction
from evaluations.queries import count_causes


def evaluation_row(row: Evaluation) -> dict[str, Any]:
    """A row of the list."""
    return {"evaluationId": row.pk, "phase": row.phase, "workload": row.workload.name, "workloadId": row.workload_id,
            "isArchived": row.workload.archived_at is not None, "modelId": row.model_id, "model": row.model_name,
            "baseModel": row.base_model,
            "dataset": row.dataset.reference, "grader": row.grader,
            "graderInstructions": row.grader_instructions or None, "meanScore": row.mean_score, "rows": row.num_rows,
            "answered": row.num_answered, "scored": row.num_scored, "unscored": row.num_unscored,
            "createdAt": row.created_at, "endedAt": row.ended_at, "description": row.description}


def evaluation_document(row: Evaluation) -> dict[str, Any]:
    """Configuration, status and summary."""
    return evaluation_row(row) | {
        "unscoredCauses": count_causes(row) if row.num_unscored else {},
        "baseModelRevision": row.base_revision or None, "chatTemplateSha256": row.chat_template_sha256 or None,
        "instructionsSource": row.instructions_source or None, "judgeModelId": row.judge_id,
        "contentHash": row.content_hash, "datasetId": row.dataset_id,
        "settings": {key: value for key, value in row.settings.items() if key != "submissionDigest"},
        "report": report_document(row) if row.report else None, **work_document(row), "checks": row.checks,
        "submissionId": row.submission_id or None}


def report_document(row: Evaluation) -> dict[str, Any]:
    """The report; accuracy per field lowest first."""
    report = row.report or {}
    return {"evaluationId": row.pk, "meanScore": report.get("meanScore"), "interval": report.get("interval"),
            "exactMatchRate": report.get("exactMatchRate"),
            "perFieldAccuracy": {entry["field"]: entry["accuracy"] for entry in report.get("fields", [])},
            **{key: report.get(key) for key in ("rows", "scored", "unscored", "verdicts", "fields", "confusion",
                                                "promptTokens", "completionTokens")}}


def prediction_document(row: Prediction) -> dict[str, Any]:
    """One answer with its verdict; `score` is null where it is unscored."""
    return {"position": row.position, "prompt": row.prompt.get("messages", []), "tools": row.prompt.get("tools") or [],
            "expected": row.expected, "answer": row.answer, "score": row.score, "isExact": row.is_exact,
            "fields": row.fields, "explanation": row.explanation, "unscoredCause": row.unscored_cause or None,
            "promptTokens": row.prompt_tokens, "completionTokens": row.completion_tokens,
            "chatTemplateSha256": row.chat_template_sha256, "baseModelRevision": row.base_revision}
