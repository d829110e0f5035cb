"""Pages of analyses: one analysis as it runs and what it measured, and the lengths on a dataset's page."""

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from datasets.analyses import queries
from datasets.analyses.operations import MEASURED, cancel_analysis, start_analysis
from datasets.analyses.phases import ENDS, PHASES
from datasets.analyses.plots import plot_lengths
from datasets.analyses.render import unit_of
from datasets.models import Analysis, ExampleSet
from datasets.queries import KIND, names_of, version_of_files
from optimize_site.kernel.auth import Actor, actor_of
from optimize_site.kernel.feeds import Item, feed, finder
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import looks_like_id
from optimize_site.kernel.refusals import go
from registry.base_model_queries import entry_id, get_base_model, list_base_models
from registry.models import Version
from registry.queries import get_artifact, get_version

SHOWN_ROWS, SHOWN_PROBLEMS = 10, 20
WORDS = {"pending": ("AWAITING_CAPACITY", "Waiting"), "running": ("PREPARING", "Measuring"),
         "done": ("COMPLETED", "Done"), "failed": ("FAILED", "Failed"), "cancelled": ("CANCELLED", "Cancelled"),
         "unreadable": ("UNAVAILABLE", "Measurements gone")}
"""Each status as the badge of a phase and its word."""


def lengths_tab(request: HtmxRequest, version: Version, examples: ExampleSet) -> dict[str, Any]:
    """The analyses of a version's examples, the picture of the newest finished one, and the form for another."""
    found = [_shown(analysis) for analysis in queries.list_analyses(examples.pk)]
    newest = next((one for one in found if one["status"] == "done"), None)
    return {"analyses": found, "newest": newest, "can_measure": examples.format in MEASURED,
            "choices": [state.repository for state in list_base_models() if state.is_selected],
            "start_url": reverse("datasets:analyze", args=[version.artifact.namespace_id, version.artifact.name])}


@require_GET
def analysis_page(request: HtmxRequest, analysis_id: str) -> HttpResponse:
    """One analysis: how far it is, then what it measured."""
    analysis = queries.get_analysis(analysis_id)
    names = names_of(analysis.examples_id)[1]
    context = _shown(analysis) | {
        "names": names, "dataset": names[-1] if names else "", "wait": queries.wait_reason(analysis),
        "places_of": version_of_files(analysis.examples_id) if len(names) > 1 else None,
        "is_open": analysis.phase not in ENDS, "base_id": entry_id(analysis.repository),
        "may_again": queries.status_of(analysis) in {"cancelled", "unreadable"} or (
            analysis.phase == "FAILED" and queries.may_succeed(analysis))}
    if request.htmx:
        # The page is whole once more after the end; then its polling stops (HTMX's 286).
        return render(request, "datasets/analysis.html#live", context, status=200 if context["is_open"] else 286)
    return render(request, "datasets/analysis.html", context)


@require_POST
def analyze(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Start an analysis of a version, or go to the one that is kept."""
    version = get_version(get_artifact(KIND, f"{namespace}/{name}"), request.POST.get("version", ""))
    examples = ExampleSet.objects.get(pk=version.content_hash)
    started = start_analysis(examples, get_base_model(request.POST.get("model", "")), actor=_operator(request))
    return go(request, reverse("datasets:analysis", args=[started.analysis.pk]))


@require_POST
def again(request: HtmxRequest, analysis_id: str) -> HttpResponse:
    """Start an analysis again that failed, was cancelled or lost what it measured."""
    analysis = queries.get_analysis(analysis_id)
    started = start_analysis(analysis.examples, get_base_model(analysis.repository), actor=_operator(request))
    return go(request, reverse("datasets:analysis", args=[started.analysis.pk]))


@require_POST
def cancel(request: HtmxRequest, analysis_id: str) -> HttpResponse:
    """Stop an analysis."""
    analysis = cancel_analysis(queries.get_analysis(analysis_id), actor=actor_of(request))
    messages.success(request, "The analysis is being stopped.", extra_tags="good")
    return go(request, reverse("datasets:analysis", args=[analysis.pk]))


# What other pages show of analyses -----------------------------------------------------------------------------------


def _item(analysis: Analysis) -> Item:
    names, status = names_of(analysis.examples_id)[1], queries.status_of(analysis)
    badge, _ = WORDS[status]
    return Item("Analysis", names[-1] if names else analysis.examples_id[:12],
                reverse("datasets:analysis", args=[analysis.pk]), badge, detail=f"under {analysis.repository}",
                share=_share(analysis) if status == "running" else None, at=analysis.created_at)


@feed("now", 15)
def measuring(_: Any) -> Iterator[Item]:
    """Analyses that run."""
    yield from map(_item, queries.list_analyses().filter(phase__in=PHASES.active)[:10])


@finder
def analyses_named(text: str) -> Iterator[Item]:
    """Analyses by the beginning of their ID."""
    if looks_like_id(text.lower()):
        yield from map(_item, queries.list_analyses().filter(pk__startswith=text.lower())[:10])


def _operator(request: HtmxRequest) -> Actor:
    """Who presses a button: reading what is kept needs no role, and a button is for starting. Raises Forbidden."""
    actor = actor_of(request)
    actor.require("operator")
    return actor


def _shown(analysis: Analysis) -> dict[str, Any]:
    status, report = queries.status_of(analysis), analysis.report
    badge, word = WORDS[status]
    shown = {"analysis": analysis, "status": status, "badge": badge, "word": word, "unit": unit_of(analysis),
             "share": _share(analysis), "report": report if status == "done" else {}}
    if status != "done":
        return shown
    total = max(1, report["totalTokens"])
    trained = [("By default: the last answer", report["trainedTokens"]["default"]),
               ("With assistantTurns: all", report["trainedTokens"]["all"])]
    number, unit = report["templateProblemRows"], unit_of(analysis)
    return shown | {"not_rendered": f"{number:,} {unit if number > 1 else unit.removesuffix('s')}",
                    "plot": plot_lengths(report, unit), "longest": report["longestRows"][:SHOWN_ROWS],
                    "problems": report["templateProblems"][:SHOWN_PROBLEMS],
                    "limits": [limit | {"share": limit["over"] / max(1, report["rows"])}
                               for limit in report["limits"]],
                    "trained": [{"name": name, "tokens": tokens, "share": tokens / total} for name, tokens in trained]}


def _share(analysis: Analysis) -> float | None:
    total = analysis.stage.get("total")
    return min(1.0, (analysis.stage.get("done") or 0) / total) if total else None
