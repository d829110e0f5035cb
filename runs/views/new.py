"""The form of a new run, guided or pasted, and the plan beside it."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from datasets.queries import list_datasets
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.refusals import go
from registry.base_model_queries import list_base_models
from registry.workload_queries import list_workloads
from runs import forms, queries
from runs.operations import check_run, submit_run
from runs.pages import estimate_rows, settings_rows
from runs.smoke import words as smoke_words
from runs.text import leak_words, leaks_anything


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HtmxRequest) -> HttpResponse:
    """The guided form, or a pasted descriptor; both submit the same operation."""
    if request.method != "POST":
        return render(request, "runs/new.html", _form(request))
    try:
        found = submit_run(_submission(request), actor=actor_of(request))
    except OperationError as error:
        if request.htmx or error.status == 403:
            raise
        return render(request, "runs/new.html", _form(request) | {"error": error}, status=error.status)
    words = "The run is on its way." if found.is_new else "This submission had already started this run."
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("runs:detail", args=[found.run.pk]))


@require_POST
def check(request: HtmxRequest) -> HttpResponse:
    """The dry run of what the form holds now: the resolved plan, and every problem beside its field."""
    try:
        plan = check_run(posted_document(request), actor=actor_of(request))
    except OperationError as error:
        return render(request, "runs/_plan.html", {"error": error})
    beside, general = _placed(plan["problems"], request.POST.get("mode") == "descriptor")
    settings = settings_rows(plan["resolved"]["config"], plan["resolved"]["execution"], plan["stated"])
    return render(request, "runs/_plan.html", {
        "plan": plan, "beside": beside, "general": general, "settings": settings,
        "estimates": estimate_rows(plan["estimates"]), "leaks": _leaks(plan),
        "smoke_words": smoke_words(plan["resolved"]["smoke"]),
        "num_wrong": sum(problem["code"] != "required" for problem in plan["problems"]), "submission_id": new_id()})


def _leaks(plan: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """The datasets to judge by that the training rows leak from, each with the sentence that says so."""
    found = (plan["diagnostics"] or {}).get("leakage", [])
    return [(leak, leak_words(leak)) for leak in found if leaks_anything(leak)]


def _submission(request: HtmxRequest) -> Any:
    """The document, with the plan's own submission ID where it states none: a second click reaches the first run."""
    document, token = posted_document(request), request.POST.get("submissionId", "")
    return {**document, "submissionId": token} if token and isinstance(document, dict) and not document.get(
        "submissionId") else document


def posted_document(request: HtmxRequest) -> Any:
    """The descriptor that the form holds, guided or pasted. Raises InvalidInput."""
    if request.POST.get("mode") == "descriptor":
        return forms.read_document(request.POST.get("text", ""))
    return forms.document_of(request.POST.dict())


def _placed(problems: list[dict[str, str]], is_text: bool) -> tuple[list[tuple[str, list[Any]]], list[Any]]:
    """Problems by the form's field, every field listed so that old ones go away, and those of no field."""
    known = {} if is_text else {field.problem_path: field.key for field in forms.ALL}
    beside: dict[str, list[Any]] = {key: [] for key in known.values()}
    general: list[Any] = []
    for problem in problems:
        key = known.get(problem["path"])
        (beside[key] if key else general).append(problem)
    return list(beside.items()), general


def _form(request: HtmxRequest) -> dict[str, Any]:
    sent = request.POST if request.method == "POST" else request.GET
    mode = "descriptor" if sent.get("mode") == "descriptor" else "form"
    values = {field.path: sent.get(field.path, "") for field in forms.ALL}
    text = sent.get("text", "")
    earlier = request.GET.get("from", "")
    if earlier and request.method != "POST":
        document = queries.get_run(earlier).descriptor
        values |= forms.values_of(document)
        text = text or forms.write_document({key: value for key, value in document.items() if key != "submissionId"})
    workloads = list(list_workloads())
    if not values["workload"] and len(workloads) == 1:
        values["workload"] = workloads[0].name
    chosen = [state for state in list_base_models() if state.is_selected]
    if not values["baseModel"] and len(chosen) == 1:
        values["baseModel"] = chosen[0].repository
    return {"mode": mode, "text": text, "main": _filled(forms.MAIN, values),
            "groups": [(name, bool(how) or any(values[field.path] for field in fields), _filled(fields, values))
                       for name, how, fields in forms.GROUPS],
            "options": {"workload": [workload.name for workload in workloads],
                        "baseModel": [state.repository for state in chosen],
                        "data": [artifact.reference for artifact in list_datasets()[:500]]}}


def _filled(fields: tuple[forms.FormField, ...], values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"field": field, "value": values.get(field.path, "")} for field in fields]
