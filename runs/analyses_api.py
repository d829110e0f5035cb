"""Routes of dataset analyses. They stand with the runs because an analysis can be read for one: with its estimates."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router, Status

from datasets.analyses import operations, queries
from datasets.analyses.phases import ENDS
from datasets.analyses.render import analysis_document, analysis_row
from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.stream import Subject, respond
from registry.models import Artifact
from registry.queries import resolve_version
from runs.operations.analyses import Request, analyze_dataset

router = Router(tags=["analyses"])


class NewAnalysis(Body):
    """A dataset and a base model; with a run's `config` and `execution`, what such a run over it would take."""

    dataset: str
    baseModel: str = ""
    config: dict[str, Any] | None = None
    execution: dict[str, Any] | None = None


@router.post("", response={200: dict[str, Any], 201: dict[str, Any]})
def analyze(request: HttpRequest, body: NewAnalysis) -> Status[dict[str, Any]]:
    """Start an analysis (201), or read the one that is kept (200), with the estimates once it is done."""
    wanted = Request(body.dataset, body.baseModel, body.config, body.execution)
    found = analyze_dataset(wanted, actor=actor_of(request))
    return Status(201 if found.is_new else 200, analysis_document(found.analysis) | {"estimates": found.estimates})


@router.get("")
def list_analyses(request: HttpRequest, dataset: str = "", limit: int = DEFAULT_LIMIT,
                  offset: int = 0) -> dict[str, Any]:
    """Analyses, newest first; of the examples that a dataset's version holds, whichever names they have."""
    content = resolve_version(Artifact.Kind.DATASET, dataset).content_hash if dataset else ""
    return page(queries.list_analyses(content), "analyses", analysis_row, limit=limit, offset=offset)


@router.get("/{analysis}")
def get_analysis(request: HttpRequest, analysis: str) -> dict[str, Any]:
    """How an analysis stands, and its measurements once it is done."""
    return analysis_document(queries.get_analysis(analysis))


@router.get("/{analysis}/events")
def follow_analysis(request: HttpRequest, analysis: str, follow: bool = True, after: int = 0) -> HttpResponseBase:
    """The current status first, then its changes as server-sent events, until it is over."""
    pk = queries.get_analysis(analysis).pk
    subject = Subject(queries.KIND, pk, lambda: analysis_document(queries.get_analysis(pk)),
                      lambda status: status["phase"] in ENDS)
    return respond(request, subject, follow=follow, after=after)


@router.post("/{analysis}/cancel", response={202: dict[str, Any]})
def cancel_analysis(request: HttpRequest, analysis: str) -> Status[dict[str, Any]]:
    """Stop an analysis; what it measured so far is used where it is asked for again."""
    row = operations.cancel_analysis(queries.get_analysis(analysis), actor=actor_of(request))
    return Status(202, analysis_document(row))
