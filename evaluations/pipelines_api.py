"""Routes of pipelines."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router, Status

from evaluations.operations import pipelines as operations
from evaluations.pipeline_phases import ENDS
from evaluations.pipeline_queries import get_pipeline, list_pipelines
from evaluations.pipeline_render import checked_document, pipeline_document, pipeline_row
from optimize_site.kernel.api import DEFAULT_LIMIT, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.stream import Subject, respond
from registry.schemas import Note
from runs.api import read_descriptor

router = Router(tags=["pipelines"])
TEXT = {"type": "string"}
SCHEMA = {"type": "object", "required": ["kind", "stages"], "properties": {
    "kind": {"const": "pipeline"}, "workload": TEXT, "project": TEXT, "submissionId": TEXT, "description": TEXT,
    "stages": {"type": "array", "items": {"type": "object"}}}}
DESCRIPTOR: dict[str, Any] = {"requestBody": {"required": True, "content": {
    kind: {"schema": SCHEMA} for kind in ("application/json", "application/yaml")}}}


@router.post("", response={201: dict[str, Any], 200: dict[str, Any]}, openapi_extra=DESCRIPTOR)
def start_pipeline(request: HttpRequest) -> Status[dict[str, Any]]:
    """Start a pipeline from a descriptor, JSON or YAML. The same `submissionId` reaches the first one: 200, not 201."""
    found = operations.start_pipeline(read_descriptor(request), actor=actor_of(request))
    return Status(201 if found.is_new else 200, pipeline_document(get_pipeline(found.pipeline.pk)))


@router.post("/dry-run", openapi_extra=DESCRIPTOR)
def check_pipeline(request: HttpRequest, resolved: bool = False) -> dict[str, Any]:
    """What starting it would say; with `resolved`, what each train stage over a registered dataset would train."""
    checked = operations.check_pipeline(read_descriptor(request), actor=actor_of(request))
    return checked_document(checked, resolved=resolved)


@router.get("")
def pipelines(request: HttpRequest, phase: str = "", workload: str = "", project: str = "", archived: bool = False,
              limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Pipelines, newest first; `phase` is a phase's name or `open`."""
    rows = list_pipelines(phase=phase, workload=workload or project, archived=archived)
    return page(rows, "pipelines", pipeline_row, limit=limit, offset=offset)


@router.get("/{pipeline}")
def pipeline(request: HttpRequest, pipeline: str) -> dict[str, Any]:
    """A pipeline whole: where each stage stands, what it made, what it cost."""
    return pipeline_document(get_pipeline(pipeline))


@router.get("/{pipeline}/events")
def follow_pipeline(request: HttpRequest, pipeline: str, follow: bool = True, after: int = 0) -> HttpResponseBase:
    """The current status first, then its changes as server-sent events, until it is over."""
    pk = get_pipeline(pipeline).pk
    subject = Subject("pipeline", pk, lambda: pipeline_document(get_pipeline(pk)),
                      lambda status: status["phase"] in ENDS)
    return respond(request, subject, follow=follow, after=after)


@router.post("/{pipeline}/cancel", response={202: dict[str, Any]})
def cancel_pipeline(request: HttpRequest, pipeline: str) -> Status[dict[str, Any]]:
    """Cancel the stage in progress; those behind it do not run."""
    row = operations.cancel_pipeline(get_pipeline(pipeline), actor=actor_of(request))
    return Status(202, pipeline_document(get_pipeline(row.pk)))


@router.post("/{pipeline}/resume", response={202: dict[str, Any]})
def resume_pipeline(request: HttpRequest, pipeline: str) -> Status[dict[str, Any]]:
    """Take it up again at the stage that did not complete."""
    row = operations.resume_pipeline(get_pipeline(pipeline), actor=actor_of(request))
    return Status(202, pipeline_document(get_pipeline(row.pk)))


@router.post("/{pipeline}/annotate")
def annotate_pipeline(request: HttpRequest, pipeline: str, body: Note) -> dict[str, Any]:
    """Set or clear the note."""
    row = operations.annotate_pipeline(get_pipeline(pipeline), description=body.description, actor=actor_of(request))
    return pipeline_document(get_pipeline(row.pk))
