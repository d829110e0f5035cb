"""Analyses as JSON documents."""

from typing import Any

from datasets.analyses import queries
from datasets.analyses.operations import MEASURED
from datasets.models import Analysis
from datasets.queries import names_of, version_of_files
from optimize_site.kernel.models import Attempt


def analysis_row(analysis: Analysis) -> dict[str, Any]:
    """An analysis in a list."""
    lengths = analysis.report.get("lengths") or {}
    return {
        "analysisId": analysis.pk, "status": queries.status_of(analysis), "phase": analysis.phase,
        "contentHash": analysis.examples_id, "format": analysis.examples.format, "unit": unit_of(analysis),
        "baseModel": analysis.repository, "baseModelRevision": analysis.revision,
        "productVersion": analysis.product_version, "rows": analysis.report.get("rows"),
        "maxTokens": lengths.get("longest"), "attempt": analysis.num_attempts, "startedAt": _started_at(analysis),
        "createdBy": analysis.created_by, "createdAt": analysis.created_at, "endedAt": analysis.ended_at,
        "progress": _progress(analysis),
        "isCancelling": analysis.cancel_requested_at is not None and analysis.ended_at is None,
    }


def analysis_document(analysis: Analysis) -> dict[str, Any]:
    """The whole of an analysis: how it stands, and its report once it is done.

    Versions that share their examples share it; lines and shards in the report are of the files of `placesOf`.
    """
    places = version_of_files(analysis.examples_id)
    failed = bool(analysis.failure_reason) and analysis.ended_at is not None
    return analysis_row(analysis) | {
        "datasets": names_of(analysis.examples_id)[1],
        "failureCode": analysis.failure_code if failed else None,
        "failureReason": analysis.failure_reason if failed else None,
        "failureHint": (analysis.failure_hint or None) if failed else None,
        "mayStartAgain": queries.may_succeed(analysis) if failed else None,
        "report": analysis.report or None, "placesOf": places.reference if places else None,
    }


def unit_of(analysis: Analysis) -> str:
    """What it counts: `rows`, or `pairs` of a preference dataset."""
    return MEASURED[analysis.examples.format]


def _progress(analysis: Analysis) -> dict[str, Any]:
    stage = analysis.stage
    return {"stage": stage.get("name"), "done": stage.get("done"), "total": stage.get("total"),
            "unit": stage.get("unit"), "waitReason": queries.wait_reason(analysis) or None}


def _started_at(analysis: Analysis) -> Any:
    newest = Attempt.objects.filter(holder_kind=queries.KIND, holder_id=analysis.pk).order_by("-number").first()
    return newest.started_at if newest is not None else None
