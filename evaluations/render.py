"""Evaluations, predictions and trials as documents."""

from typing import Any

from evaluations.models import Evaluation, Prediction, Trial


def evaluation_row(row: Evaluation) -> dict[str, Any]:
    """A row of the list."""
    return {"evaluationId": row.pk, "phase": row.phase, "workload": row.workload.name, "workloadId": row.workload_id,
            "modelId": row.model_id, "model": row.model.reference, "baseModel": row.base_model,
            "dataset": row.dataset.reference, "grader": row.grader, "meanScore": row.mean_score, "rows": row.num_rows,
            "answered": row.num_answered, "scored": row.num_scored, "unscored": row.num_unscored,
            "createdAt": row.created_at, "endedAt": row.ended_at, "description": row.description}


def evaluation_document(row: Evaluation) -> dict[str, Any]:
    """Configuration, status and summary."""
    return evaluation_row(row) | {
        "baseModelRevision": row.base_revision or None, "chatTemplateSha256": row.chat_template_sha256 or None,
        "contentHash": row.content_hash, "datasetId": row.dataset_id,
        "settings": {key: value for key, value in row.settings.items() if key != "submissionDigest"},
        "report": report_document(row) if row.report else None, **_work(row), "checks": row.checks,
        "submissionId": row.submission_id or None}


def report_document(row: Evaluation) -> dict[str, Any]:
    """The report; accuracy per field lowest first."""
    report = row.report or {}
    return {"evaluationId": row.pk, "meanScore": report.get("meanScore"), "interval": report.get("interval"),
            "exactMatchRate": report.get("exactMatchRate"),
            "perFieldAccuracy": {entry["field"]: entry["accuracy"] for entry in report.get("fields", [])},
            **{key: report.get(key) for key in ("rows", "scored", "unscored", "fields", "confusion", "promptTokens",
                                                "completionTokens")}}


def prediction_document(row: Prediction) -> dict[str, Any]:
    """One answer with its verdict; `score` is null where it is unscored."""
    return {"position": row.position, "prompt": row.prompt.get("messages", []), "tools": row.prompt.get("tools") or [],
            "expected": row.expected, "answer": row.answer, "score": row.score, "isExact": row.is_exact,
            "fields": row.fields, "explanation": row.explanation, "unscoredCause": row.unscored_cause or None,
            "promptTokens": row.prompt_tokens, "completionTokens": row.completion_tokens,
            "chatTemplateSha256": row.chat_template_sha256, "baseModelRevision": row.base_revision}


def trial_document(row: Trial) -> dict[str, Any]:
    """A trial with the answers that came so far, by who gave them: `candidate` and `base`."""
    return {"trialId": row.pk, "phase": row.phase, "modelId": row.model_id, "model": row.model.reference,
            "messages": row.messages, "answers": row.answers, "settings": row.settings, "createdAt": row.created_at,
            "endedAt": row.ended_at, **_work(row)}


def _work(row: Evaluation | Trial) -> dict[str, Any]:
    return {"stage": row.stage or None, "waitReason": row.wait_reason or None, "attempts": row.num_attempts,
            "cancelRequested": row.cancel_requested_at is not None, "failureCode": row.failure_code or None,
            "failureReason": row.failure_reason or None, "failureHint": row.failure_hint or None,
            "deviceSeconds": round(row.device_seconds, 3), "timing": {"phaseMillis": row.phase_millis},
            "createdBy": row.created_by}
