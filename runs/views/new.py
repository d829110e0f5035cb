"""The form of a new run, guided or pasted, and the plan beside it."""

from functools import partial
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
from registry.model_queries import list_model_versions
from registry.workload_queries import list_workloads
from runs import forms, queries
from runs.lookups import offered_format
from runs.operations import check_run, submit_run
from runs.pages import estimate_rows, settings_rows
from runs.reward_form import TermForm, changed, choices, terms_in, terms_of
from runs.smoke import words as smoke_words
from runs.text import diagnostics_rows, leak_words, leaks_anything


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
    is_text = request.POST.get("mode") == "descriptor"
    beside, general = _placed(plan["problems"], None if is_text else request.POST.dict())
    settings = settings_rows(plan["resolved"]["config"], plan["resolved"]["execution"], plan["stated"])
    return render(request, "runs/_plan.html", {
        "plan": plan, "beside": beside, "general": general, "settings": settings,
        "is_form": not is_text, "estimates": estimate_rows(plan["estimates"]), "leaks": _leaks(plan),
        "noticed": _noticed(plan),
        "smoke_words": smoke_words(plan["resolved"]["smoke"]),
        "num_wrong": sum(problem["code"] != "required" for problem in plan["problems"]), "submission_id": new_id()})


def _noticed(plan: dict[str, Any]) -> list[tuple[str, Any]]:
    """What shows in the rows, in the words of the command; leaks have their own place."""
    found = plan["diagnostics"]
    quiet = [leak for leak in found["leakage"] if not leaks_anything(leak)] if found else []
    rows = diagnostics_rows(found | {"leakage": quiet}) if found else []
    return [(label, value) for label, value in rows if value is not None]


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


@require_POST
def fields(request: HtmxRequest) -> HttpResponse:
    """The form's fields for the method that it holds now, after a button of the reward's terms."""
    sent = request.POST.dict()
    grader, dataset, workload = (sent.get(name, "").strip() for name in ("grader", "config.dataset", "workload"))
    offered = partial(offered_format, grader, dataset, workload)
    terms = changed(terms_in(sent), sent.get("do", ""), offered)
    response = render(request, "runs/_fields.html", _fields(sent, terms))
    response["HX-Trigger-After-Swap"] = "fields-changed"
    return response


def _placed(problems: list[dict[str, str]], sent: dict[str, str] | None) -> tuple[list[tuple[str, list[Any]]],
                                                                                 list[Any]]:
    """Problems by the form's field or the reward's term, all of them listed so that old ones go away, and those of
    none. `sent` is None for a pasted descriptor."""
    if sent is None:
        return [], problems
    known = {field.problem_path: field.key for field in forms.fields_of_method(forms.method_in(sent))}
    terms = [f"term-{number}" for number in range(len(terms_in(sent)))]
    beside: dict[str, list[Any]] = {key: [] for key in (*known.values(), *terms)}
    general: list[Any] = []
    for problem in problems:
        key = known.get(problem["path"]) or _term_of(problem["path"])
        beside.get(key, general).append(problem)
    return list(beside.items()), general


def _term_of(path: str) -> str:
    """The term of the reward that a problem is about: `term-0` of `config.reward.terms[0].grader`."""
    start, _, rest = path.partition("[")
    return f"term-{rest.partition(']')[0]}" if start == "config.reward.terms" and rest else ""


def _form(request: HtmxRequest) -> dict[str, Any]:
    sent = request.POST if request.method == "POST" else request.GET
    mode = "descriptor" if sent.get("mode") == "descriptor" else "form"
    values = {path: sent.get(path, "") for path in (*(field.path for field in forms.ALL), forms.REST)}
    terms = terms_in(sent.dict())
    text = sent.get("text", "")
    earlier = request.GET.get("from", "")
    if earlier and request.method != "POST":
        document = {key: value for key, value in queries.get_run(earlier).descriptor.items() if key != "submissionId"}
        values |= forms.values_of(document)
        terms = terms_of(forms.reward_of(document))
        text = text or forms.write_document(document)
        return {"mode": mode, "text": text} | _fields(values, terms)
    workloads = list(list_workloads())
    if not values["workload"] and len(workloads) == 1:
        values["workload"] = workloads[0].name
    chosen = [state for state in list_base_models() if state.is_selected]
    if not values["baseModel"] and len(chosen) == 1:
        values["baseModel"] = chosen[0].repository
    return {"mode": mode, "text": text} | _fields(values, terms)


def _fields(values: dict[str, str], terms: list[TermForm]) -> dict[str, Any]:
    """The form's groups for its method, the reward's terms, and what may be chosen from."""
    method = forms.method_in(values)
    groups = [{"name": name, "fields": _filled(fields, values, method),
               "is_open": bool(how) or any(values.get(field.path) for field in fields if field.is_for(method))}
              for name, how, fields in forms.GROUPS]
    chosen = [state for state in list_base_models() if state.is_selected]
    return {"main": _filled(forms.MAIN, values, method), "groups": [group for group in groups if group["fields"]],
            "method": method, "reward_group": forms.REWARD, "scorers": choices(),
            "terms": [{"number": number, "term": term, "fields": term.fields(number)}
                      for number, term in enumerate(terms)],
            "rest": values.get(forms.REST, ""),
            "options": {"workload": _with(values, "workload", [workload.name for workload in list_workloads()]),
                        "baseModel": _with(values, "baseModel", [state.repository for state in chosen]),
                        "data": [artifact.reference for artifact in list_datasets()[:500]],
                        "adapters": [version.reference for version in list_model_versions(archived=False)[:500]
                                     if version.objects_listing]}}


def _with(values: dict[str, str], path: str, known: list[str]) -> list[str]:
    """What may be chosen, and what is chosen where it is none of these: a choice is never changed by showing it."""
    chosen = values.get(path, "")
    return known if not chosen or chosen in known else [*known, chosen]


def _filled(fields: tuple[forms.FormField, ...], values: dict[str, str], method: str) -> list[dict[str, Any]]:
    return [{"field": field, "value": values.get(field.path, ""), "default": field.default_for(method)}
            for field in fields if field.is_for(method)]
