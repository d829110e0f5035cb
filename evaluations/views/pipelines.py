"""Pages of pipelines: the list, a new one with what it would do beside, and one that shows where it stands."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from evaluations.models import Pipeline, Stage
from evaluations.operations.pipelines import (
    annotate_pipeline,
    cancel_pipeline,
    check_pipeline,
    resume_pipeline,
    start_pipeline,
)
from evaluations.pipeline_phases import COMPLETED, RUNNING
from evaluations.pipeline_queries import get_pipeline, list_pipelines
from evaluations.pipeline_render import checked_document, pipeline_document, pipeline_row
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.listing import listed, wants_archived
from optimize_site.kernel.refusals import go
from registry.workload_queries import list_workloads
from runs.forms import read_document, write_document

FILTERS = (("", "All"), ("open", "Open"), ("completed", "Completed"), ("failed", "Failed"), ("cancelled", "Cancelled"))
CSS = {Stage.State.COMPLETED: "end-good", Stage.State.RUNNING: "now", Stage.State.FAILED: "end-bad"}


@require_GET
def pipeline_list(request: HtmxRequest) -> HttpResponse:
    """Pipelines, newest first; of one phase or workload."""
    phase, workload = request.GET.get("phase", ""), request.GET.get("workload", "")
    archived = wants_archived(request)
    page = listed(request, list_pipelines(phase=phase, workload=workload, archived=archived))
    page["rows"] = [{"row": pipeline_row(row), "name": name_of(row), "strip": _strip(row)} for row in page["rows"]]
    template = "pipelines/list.html#live" if request.htmx else "pipelines/list.html"
    return render(request, template, page | {"filters": FILTERS, "phase": phase, "workload": workload,
                                             "archived": archived})


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HtmxRequest) -> HttpResponse:
    """A pasted descriptor; sent, it starts the pipeline."""
    if request.method != "POST":
        return render(request, "pipelines/new.html", _form(request))
    try:
        found = start_pipeline(_submission(request), actor=actor_of(request))
    except OperationError as error:
        if request.htmx or error.status == 403:
            raise
        return render(request, "pipelines/new.html", _form(request) | {"error": error}, status=error.status)
    words = "The pipeline is on its way." if found.is_new else "This submission had already started this pipeline."
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("evaluations:pipeline", args=[found.pipeline.pk]))


@require_POST
def check(request: HtmxRequest) -> HttpResponse:
    """What the pasted pipeline would do, and every problem with it."""
    try:
        checked = check_pipeline(read_document(request.POST.get("text", "")), actor=actor_of(request))
    except OperationError as error:
        return render(request, "pipelines/_plan.html", {"error": error})
    return render(request, "pipelines/_plan.html", {
        "plan": checked_document(checked, resolved=False), "submission_id": new_id()[:32]})


def _submission(request: HtmxRequest) -> Any:
    """The document, with the check's own submission ID where it states none: a second click reaches the first one."""
    document, token = read_document(request.POST.get("text", "")), request.POST.get("submissionId", "")
    return {**document, "submissionId": token} if token and isinstance(document, dict) and not document.get(
        "submissionId") else document


def _form(request: HtmxRequest) -> dict[str, Any]:
    text, earlier = request.POST.get("text", ""), request.GET.get("from", "")
    if earlier and request.method != "POST":
        written = get_pipeline(earlier).descriptor
        text = write_document({key: value for key, value in written.items() if key != "submissionId"})
    return {"text": text, "workloads": [workload.name for workload in list_workloads()]}


@require_GET
def detail(request: HtmxRequest, pipeline_id: str) -> HttpResponse:
    """One pipeline: its stages as a strip, what each made, its score against its gate, what it cost."""
    row = get_pipeline(pipeline_id)
    is_open = row.phase == RUNNING
    context = {"row": row, "name": name_of(row), "is_open": is_open, "strip": _strip(row), "completed": COMPLETED,
               "document": pipeline_document(row),
               "cancel_why_not": "Cancel was asked for." if row.cancel_requested_at else "",
               "resume_why_not": "Every stage has run." if row.phase == COMPLETED else ""}
    if request.htmx:
        return render(request, "pipelines/detail.html#live", context, status=200 if is_open else 286)
    return render(request, "pipelines/detail.html", context)


def name_of(row: Pipeline) -> str:
    """What a pipeline is called: the first line of its note, or its ID."""
    return (row.description.splitlines() or [""])[0][:80] or f"Pipeline {row.pk[:12]}"


def _strip(row: Pipeline) -> list[dict[str, Any]]:
    return [{"stage": stage, "css": CSS.get(Stage.State(stage.state), "")} for stage in row.stages.all()]


@require_POST
def cancel(request: HtmxRequest, pipeline_id: str) -> HttpResponse:
    """Cancel the stage in progress; those behind it do not run."""
    row = cancel_pipeline(get_pipeline(pipeline_id), actor=actor_of(request))
    return _told(request, row, "The pipeline is being cancelled. What its stages made so far is kept.")


@require_POST
def resume(request: HtmxRequest, pipeline_id: str) -> HttpResponse:
    """Take it up again at the stage that did not complete."""
    row = resume_pipeline(get_pipeline(pipeline_id), actor=actor_of(request))
    return _told(request, row, "The pipeline goes on at the stage that did not complete.")


@require_POST
def annotate(request: HtmxRequest, pipeline_id: str) -> HttpResponse:
    """Set or clear its note."""
    row = annotate_pipeline(get_pipeline(pipeline_id), description=request.POST.get("description"),
                            actor=actor_of(request))
    return _told(request, row, "The note is kept." if row.description else "The note is cleared.")


def _told(request: HtmxRequest, row: Pipeline, words: str) -> HttpResponse:
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("evaluations:pipeline", args=[row.pk]))
