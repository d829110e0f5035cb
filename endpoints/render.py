"""Trials and judges as documents, and what the document of any work that asks a model says of the work itself."""

from typing import Any

from endpoints.models import Trial
from endpoints.phases import JUDGE_STATES, RESTING
from optimize_site.kernel.work_row import WorkRow


def trial_document(row: Trial) -> dict[str, Any]:
    """A trial with the answers that came so far, by who gave them: `candidate` and `base`."""
    return {"trialId": row.pk, "phase": row.phase, "modelId": row.model_id, "model": row.model.reference,
            "messages": row.messages, "answers": row.answers, "settings": row.settings, "createdAt": row.created_at,
            "endedAt": row.ended_at, **work_document(row)}


def judge_document(row: Any) -> dict[str, Any]:
    """A judge as the queries give it, with whom it is held for, where it stands, what it holds in memory at most, how
    many answers it has graded, and what befell it last."""
    return {"judgeId": row.pk, "phase": row.phase, "state": state_of(row), "modelId": row.model_id,
            "model": row.model.reference, "profile": row.profile,
            "heldFor": {"kind": row.holder_kind.upper(), "workId": row.holder_id},
            "answered": row.stage.get("done") or 0, "peakMemoryBytes": row.stage.get("peakMemoryBytes"),
            "lastFault": fault_of(row) or None, "createdAt": row.created_at, "endedAt": row.ended_at,
            **work_document(row)}


def state_of(row: Any) -> str:
    """`waiting`, `starting`, `answering`, `resting` where its run is paused, `released` or `failed`."""
    return RESTING if row.is_resting else JUDGE_STATES[row.phase]


def fault_of(row: Any) -> str:
    """Why a judge failed, or that its job was lost and started again; empty where neither happened."""
    if row.failure_reason or not row.num_lost:
        return str(row.failure_reason)
    return f"Its job was lost {'once' if row.num_lost == 1 else f'{row.num_lost} times'} and started again."


def work_document(row: WorkRow) -> dict[str, Any]:
    """What it waits for, how often and how long it ran, and why it failed."""
    return {"stage": row.stage or None, "waitReason": row.wait_reason or None, "attempts": row.num_attempts,
            "cancelRequested": row.cancel_requested_at is not None, "failureCode": row.failure_code or None,
            "failureReason": row.failure_reason or None, "failureHint": row.failure_hint or None,
            "deviceSeconds": round(row.device_seconds, 3), "timing": {"phaseMillis": row.phase_millis},
            "createdBy": row.created_by}
