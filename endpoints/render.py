"""Trials and judges as documents, and what the document of any work that asks a model says of the work itself."""

from typing import Any

from endpoints.models import Judge, Trial
from optimize_site.kernel.work_row import WorkRow


def trial_document(row: Trial) -> dict[str, Any]:
    """A trial with the answers that came so far, by who gave them: `candidate` and `base`."""
    return {"trialId": row.pk, "phase": row.phase, "modelId": row.model_id, "model": row.model.reference,
            "messages": row.messages, "answers": row.answers, "settings": row.settings, "createdAt": row.created_at,
            "endedAt": row.ended_at, **work_document(row)}


def judge_document(row: Judge) -> dict[str, Any]:
    """A judge, with whom it is held for, where it stands, and how many answers it has graded."""
    return {"judgeId": row.pk, "phase": row.phase, "modelId": row.model_id, "model": row.model.reference,
            "heldFor": {"kind": row.holder_kind.upper(), "workId": row.holder_id}, "profile": row.profile,
            "answered": row.stage.get("done") or 0, "createdAt": row.created_at, "endedAt": row.ended_at,
            **work_document(row)}


def work_document(row: WorkRow) -> dict[str, Any]:
    """What it waits for, how often and how long it ran, and why it failed."""
    return {"stage": row.stage or None, "waitReason": row.wait_reason or None, "attempts": row.num_attempts,
            "cancelRequested": row.cancel_requested_at is not None, "failureCode": row.failure_code or None,
            "failureReason": row.failure_reason or None, "failureHint": row.failure_hint or None,
            "deviceSeconds": round(row.device_seconds, 3), "timing": {"phaseMillis": row.phase_millis},
            "createdBy": row.created_by}
