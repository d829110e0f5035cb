"""Pages of workloads: the list, one with its champion and candidates, its settings, and the promotion's evidence."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from datasets.queries import list_datasets
from evaluations.comparison import compare_models
from evaluations.errors import NotComparable
from evaluations.operations.promotion import gather_evidence, promote
from evaluations.scores import scores_table
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.graders import DEFAULT
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, wants_archived
from optimize_site.kernel.marking import mark_difference
from optimize_site.kernel.refusals import go
from optimize_site.kernel.scores import best_scores_of_models
from optimize_site.kernel.words import event_words
from registry.base_model_queries import list_base_models
from registry.model_queries import get_model, list_model_versions, serving_of
from registry.models import Version, Workload
from registry.operations.workloads import (
    annotate_workload,
    archive_workload,
    create_workload,
    set_evaluation,
    set_reference,
    unarchive_workload,
)
from registry.workload_queries import get_workload, history_of, list_workloads, references_of
from runs.queries import list_runs

FLIPS = 30
RUNS = 8


@require_GET
def workload_list(request: HtmxRequest) -> HttpResponse:
    """Every workload with its champion and score."""
    archived = wants_archived(request)
    page = listed(request, list_workloads(archived=archived))
    held = {workload.pk: references_of(workload) for workload in page["rows"]}
    scores = best_scores_of_models(reference.version_id for found in held.values() for reference in found.values())
    page["rows"] = [_listed(workload, held[workload.pk], scores) for workload in page["rows"]]
    return render(request, "workloads/list.html", page | {"archived": archived})


def _listed(workload: Workload, references: dict[str, Any], scores: dict[str, Any]) -> dict[str, Any]:
    champion = references.get("champion")
    return {"workload": workload, "champion": champion, "score": scores.get(champion.version_id) if champion else None,
            "open_runs": list_runs(phase="open", workload=workload.pk).count(),
            "runs": list_runs(workload=workload.pk).count()}


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HtmxRequest) -> HttpResponse:
    """Make a workload."""
    sent = request.POST if request.method == "POST" else request.GET
    names = ("name", "dataset", "grader", "instructions", "description")
    values = {name: sent.get(name, "").strip() for name in names}
    context = {"values": values, "datasets": [artifact.reference for artifact in list_datasets()[:500]],
               "default_grader": DEFAULT}
    if request.method != "POST":
        return render(request, "workloads/new.html", context)
    try:
        workload = create_workload(**values, actor=actor_of(request))
    except OperationError as error:
        if error.status == 403:
            raise
        return render(request, "workloads/new.html", context | {"error": error}, status=error.status)
    messages.success(request, f"The workload {workload.name} is made.", extra_tags="good")
    return go(request, reverse("evaluations:workload", args=[workload.name]))


@require_GET
def detail(request: HtmxRequest, name: str) -> HttpResponse:
    """One workload: its champion against the base, scores by configuration, candidates, settings, history."""
    workload = get_workload(name)
    references = references_of(workload)
    champion = references.get("champion")
    table = scores_table(workload)
    context = {
        "workload": workload, "references": references, "champion": champion, "table": table,
        "champion_score": _score_in(table, champion.version_id) if champion else None,
        "baseline": _baseline(table, champion.version if champion else None),
        "evidence": champion.evidence if champion else {}, "candidates": _candidates(workload, table, champion),
        "unscored": _unscored(workload, table), "runs": list_runs(workload=workload.pk)[:RUNS],
        "history": [{"at": event.at, "words": event_words(event.type), "actor": event.actor, "reason": event.reason,
                     "data": event.data} for event in history_of(workload).order_by("-id")[:50]],
        "base_models": [state.version for state in list_base_models() if state.is_ready and state.version],
        "datasets": [artifact.reference for artifact in list_datasets()[:500]]}
    template = "workloads/detail.html#live" if request.htmx else "workloads/detail.html"
    return render(request, template, context)


def _scored(table: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for part in table["tables"]:
        for configuration in part["configurations"]:
            for run in configuration["runs"]:
                yield run | {"configName": configuration["configName"], "configHash": configuration["configHash"],
                             "baseModel": part["baseModel"]}


def _score_in(table: dict[str, Any], model_id: str) -> dict[str, Any] | None:
    baselines = [part["baseline"] for part in table["tables"] if part["baseline"]]
    return next((run for run in [*_scored(table), *baselines] if run["modelId"] == model_id), None)


def _baseline(table: dict[str, Any], champion: Version | None) -> dict[str, Any] | None:
    """The untouched base model's score: the champion's own base, else the best there is."""
    found = [part for part in table["tables"] if part["baseline"]]
    base = serving_of(champion).base_model if champion is not None else ""
    own = [part["baseline"] for part in found if part["baseModel"] == base]
    scored = own or sorted((part["baseline"] for part in found), key=lambda row: -(row["meanScore"] or 0))
    return scored[0] if scored else None


def _candidates(workload: Workload, table: dict[str, Any], champion: Any) -> list[dict[str, Any]]:
    """Scored models that beat the champion, or any scored one where there is none; the best first."""
    held = _score_in(table, champion.version_id) if champion else None
    least = (held or {}).get("meanScore")
    found = [run for run in _scored(table) if run["meanScore"] is not None
             and (champion is None or run["modelId"] != champion.version_id)
             and (least is None or run["meanScore"] > least)]
    return sorted(found, key=lambda run: -run["meanScore"])[:5]


def _unscored(workload: Workload, table: dict[str, Any]) -> list[Version]:
    """Models of the workload that the present dataset and grader have not judged."""
    known = {run["modelId"] for run in _scored(table)}
    trained = list_model_versions().filter(artifact__namespace=workload.namespace_id)
    return [version for version in trained[:50] if version.pk not in known and not serving_of(version).is_base][:5]


@require_http_methods(["GET", "HEAD", "POST"])
def promotion(request: HtmxRequest, name: str) -> HttpResponse:
    """The evidence for a promotion, and the promotion itself."""
    workload = get_workload(name)
    sent = request.POST if request.method == "POST" else request.GET
    version = get_model(sent.get("model", ""), workload.namespace_id)
    if request.method == "POST":
        promote(workload, version, actor=actor_of(request), note=sent.get("note", "").strip(),
                force=sent.get("force") == "yes")
        messages.success(request, f"{version.reference} is the champion of {workload.name}.", extra_tags="good")
        return go(request, reverse("evaluations:workload", args=[workload.name]))
    return render(request, "workloads/promote.html", _evidence(workload, version))


def _evidence(workload: Workload, version: Version) -> dict[str, Any]:
    champion = references_of(workload).get("champion")
    evidence = gather_evidence(workload, version, champion)
    comparison = _comparison(workload, champion.version, version) if champion else None
    own, held = evidence["evaluation"], evidence["champion"]
    is_better = own is not None and own["meanScore"] is not None and (
        held is None or held["meanScore"] is None or own["meanScore"] > held["meanScore"])
    return {"workload": workload, "version": version, "champion": champion, "evidence": evidence,
            "is_better": is_better, "is_champion": champion is not None and champion.version_id == version.pk,
            "comparison": comparison, "flips": _flips(comparison)}


def _comparison(workload: Workload, held: Version, version: Version) -> dict[str, Any] | None:
    try:
        return compare_models(workload, held, version)
    except NotComparable:
        return None


def _flips(comparison: dict[str, Any] | None) -> list[dict[str, Any]]:
    if comparison is None:
        return []
    return [flip | {side: flip[side] | {"marked": mark_difference(flip["expected"], flip[side]["answer"])[1]}
                    for side in ("a", "b")} for flip in comparison["flips"][:FLIPS]]


@require_POST
def settings(request: HtmxRequest, name: str) -> HttpResponse:
    """What judges the workload, and its note: all of what was sent, or nothing where one of it is refused."""
    workload, sent = get_workload(name), request.POST
    actor = actor_of(request)
    asked = {name: sent.get(name, "").replace("\r\n", "\n").strip() for name in ("dataset", "grader", "instructions")}
    with transaction.atomic():
        if "dataset" in sent and asked != _judged_by(workload):
            set_evaluation(workload, **asked, actor=actor)
        if sent.get("base", ""):
            set_reference(workload, "base", sent["base"], actor=actor)
        annotate_workload(workload, description=sent.get("description"), actor=actor)
    messages.success(request, "The settings are saved.", extra_tags="good")
    return go(request, reverse("evaluations:workload", args=[workload.name]))


def _judged_by(workload: Workload) -> dict[str, str]:
    """What judges the workload, as its form shows it."""
    dataset = workload.evaluation_dataset
    return {"dataset": dataset.reference if dataset is not None else "", "grader": workload.grader,
            "instructions": workload.grader_instructions}


@require_POST
def archive(request: HtmxRequest, name: str) -> HttpResponse:
    """Take it out of the lists; refused while it has work in progress."""
    workload = archive_workload(get_workload(name), actor=actor_of(request))
    open_still = "" if workload.namespace.archived_at else f" Its namespace {workload.namespace_id} is still open."
    messages.success(request, f"{workload.name} is archived and takes no new work.{open_still}", extra_tags="good")
    return go(request, reverse("evaluations:workload", args=[workload.name]))


@require_POST
def unarchive(request: HtmxRequest, name: str) -> HttpResponse:
    """Bring it back."""
    workload = unarchive_workload(get_workload(name), actor=actor_of(request))
    messages.success(request, f"{workload.name} is open.", extra_tags="good")
    return go(request, reverse("evaluations:workload", args=[workload.name]))
