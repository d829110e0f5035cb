"""Base models as documents: what lists, pages and programs read."""

from typing import Any

import msgspec

from optimize_site.kernel.catalog import Envelope, load_catalog
from optimize_site.kernel.conf import setting
from registry import phases
from registry.base_model_queries import BaseModelState


def base_model_row(state: BaseModelState) -> dict[str, Any]:
    """A row of the list."""
    return {"id": state.id, "repository": state.repository, "revision": state.revision or None,
            "parameters": state.parameters, "contextLength": state.context_length, "methods": _methods(state),
            "status": phases.LIST_STATUS.get(state.phase, "not-selected"), "selection": _selection(state),
            "modelId": state.version.pk if state.version else None,
            "reference": state.version.reference if state.version else None, "allowed": state.is_allowed,
            "servingOnly": state.is_serving_only, "progress": progress_of(state),
            "failureReason": state.failure or None}


def base_model_document(state: BaseModelState) -> dict[str, Any]:
    """The whole record: admission, selection, what was measured, what preparing found."""
    entry, facts = state.entry, state.facts
    return base_model_row(state) | {
        "status": _admission(state), "title": entry.title if entry else "", "summary": entry.summary if entry else "",
        "license": entry.license if entry else "", "gated": bool(entry and entry.gated),
        "modality": entry.modality if entry else None,
        "nominalBillions": entry.nominal_billions if entry else None,
        "nominalActiveBillions": entry.nominal_active_billions if entry else None,
        "allowedFor": "serving only" if state.is_serving_only else "training and serving",
        "servingOnlyReason": (entry.serving_only_reason if entry else "") or None,
        "servingProfiles": list(entry.serving_profiles) if entry else [],
        "source": _source(state), "specialTokens": facts.get("specialTokens") or (dict(entry.special_tokens) if entry
                                                                                   else {}),
        "chatTemplateSha256": state.chat_template_sha256 or None,
        "chatTemplateCorrection": state.chat_template_correction or None,
        "chatTemplateNote": state.chat_template_note or None, "architecture": facts.get("architecture"),
        "vocabSize": facts.get("vocabSize"), "weights": _weights(state),
        "runs": [_admitted(envelope) for envelope in _envelopes(state)],
        "envelopes": {"strict": is_strict(), "measured": len(_envelopes(state))},
        "phase": state.phase or None, "phaseMillis": state.row.phase_millis if state.row else {},
        "failureCode": state.failure_code or None, "selectedAt": state.selected_at,
        "selectedBy": state.row.selected_by if state.row else None}


def progress_of(state: BaseModelState) -> dict[str, Any] | None:
    """How far preparing is: stage, done, total, unit."""
    if state.row is None or state.phase not in phases.UNDER_WAY or not state.row.progress:
        return None
    return dict(state.row.progress)


def is_strict() -> bool:
    """Whether a run that was not measured is refused rather than warned about."""
    return bool(setting("trainer.base-model-catalog.strict-envelopes") or load_catalog().defaults.strict_envelopes)


def _selection(state: BaseModelState) -> str | None:
    return None if state.is_leaving else phases.SELECTION.get(state.phase)


def _admission(state: BaseModelState) -> str:
    return phases.ADMISSION[state.phase] if state.is_allowed else "WITHDRAWN"


def _methods(state: BaseModelState) -> list[str]:
    return load_catalog().methods_of(state.entry) if state.entry else []


def _source(state: BaseModelState) -> dict[str, Any] | None:
    if state.entry is None:
        return None
    return {key: value for key, value in msgspec.to_builtins(state.entry.source).items() if value}


def _weights(state: BaseModelState) -> dict[str, Any] | None:
    if not state.is_ready or state.row is None:
        return None
    return {"cached": True, "folder": state.row.folder, "bytes": state.facts.get("bytes"),
            "files": len(state.facts.get("files", []))}


def _envelopes(state: BaseModelState) -> list[Envelope]:
    return list(state.entry.envelopes) if state.entry else []


def _admitted(envelope: Envelope) -> dict[str, Any]:
    return {"methods": list(envelope.methods), "precisions": list(envelope.precisions), "gpus": envelope.gpus,
            "deviceProfile": envelope.device_profile, "engines": list(envelope.engines),
            "maxSeqLength": envelope.max_seq_length, "maxPassTokens": envelope.max_pass_tokens,
            "memoryPerGpuGib": envelope.device_memory_gib, "hostMemoryPerNodeGib": envelope.host_memory_gib}
