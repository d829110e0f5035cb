"""Pages of comparisons: the list, a new one from a save and its branches, and one with scores and what differs."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from datasets.queries import list_datasets
from evaluations.comparison_phases import COMPARISON
from evaluations.comparison_queries import get_comparison, list_comparisons
from evaluations.comparison_render import comparison_document, comparison_row
from evaluations.models import Comparison, Target
from evaluations.operations.comparisons import Wish, create_comparison
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.listing import listed, wants_archived, whole
from optimize_site.kernel.refusals import go
from runs.compared_figures import last_figure
from runs.lineage import branches_of
from runs.models import Snapshot
from runs.pages import title_of
from runs.queries import candidates_of, get_snapshot


@require_GET
def comparison_list(request: HtmxRequest) -> HttpResponse:
    """Comparisons, newest first."""
    archived = wants_archived(request)
    page = listed(request, list_comparisons(archived=archived))
    page["rows"] = [comparison_row(row) for row in page["rows"]]
    template = "comparisons/list.html#live" if request.htmx else "comparisons/list.html"
    return render(request, template, page | {"archived": archived})


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HtmxRequest) -> HttpResponse:
    """Which branches of a save to score; sent, it starts the comparison."""
    if request.method != "POST":
        return render(request, "comparisons/new.html", _form(request))
    try:
        found = create_comparison(_wish(request), actor=actor_of(request))
    except OperationError as error:
        if request.htmx or error.status == 403:
            raise
        return render(request, "comparisons/new.html", _form(request) | {"error": error}, status=error.status)
    words = "The comparison is on its way." if found.is_new else "This submission had already made this comparison."
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("evaluations:comparison", args=[found.comparison.pk]))


def _wish(request: HtmxRequest) -> Wish:
    sent = request.POST
    source, is_all = sent.get("source", "").strip(), sent.get("which") == "all"
    parent = get_snapshot(source).run_id if is_all and source else ""
    candidates, branches = (() if is_all else tuple(sent.getlist(name)) for name in ("candidate", "branch"))
    return Wish(source, candidates, branches, all_branches=parent,
                dataset=sent.get("dataset", "").strip(), grader=sent.get("grader", "").strip(),
                max_new_tokens=whole(sent.get("max_completion_tokens"), most=4096),
                submission_id=sent.get("submissionId", ""))


def _form(request: HtmxRequest) -> dict[str, Any]:
    sent = request.POST if request.method == "POST" else request.GET
    values = {name: sent.get(name, "") for name in ("source", "dataset", "grader", "max_completion_tokens")}
    source = _source(values["source"])
    branches = branches_of(source.run).filter(source_snapshot=source) if source else []
    return {"values": values, "source": source, "submission_id": new_id()[:32],
            "body": {"source": source.pk if source else "SNAPSHOT", "allBranches": source.run_id if source else "RUN"},
            "title": title_of(source.run.config_name, source.run.description, source.run_id) if source else "",
            "branches": [{"run": run, "title": title_of(run.config_name, run.description, run.pk),
                          "last": last_figure(run)} for run in branches],
            "candidates": candidates_of(source.run).exclude(snapshot=source) if source else [],
            "datasets": [artifact.reference for artifact in list_datasets()[:500]]}


def _source(text: str) -> Snapshot | None:
    try:
        return get_snapshot(text) if text.strip() else None
    except OperationError:
        return None


@require_GET
def detail(request: HtmxRequest, comparison_id: str) -> HttpResponse:
    """One comparison: each model's score, who did best, and in what they differ."""
    row = get_comparison(comparison_id)
    is_open = row.phase in COMPARISON.open
    context = _page(row) | {"is_open": is_open}
    if request.htmx:
        return render(request, "comparisons/detail.html#live", context, status=200 if is_open else 286)
    return render(request, "comparisons/detail.html", context)


def _page(row: Comparison) -> dict[str, Any]:
    document = comparison_document(row)
    rows = list(row.targets.select_related("run", "model__artifact", "evaluation"))
    targets = [{"row": target, "document": found, "title": title_of(target.run.config_name, target.run.description,
                                                                    target.run_id),
                "progress": _progress(target), "interval": _interval(target)}
               for target, found in zip(rows, document["targets"], strict=True)]
    done = sum(target.state in {Target.State.COMPLETED, Target.State.FAILED} for target in rows)
    return {"row": row, "document": document, "done": done, "total": len(rows),
            "targets": sorted(targets, key=lambda entry: -(entry["row"].mean_score or -1.0))}


def _progress(target: Target) -> str:
    """How far a target is that is being scored."""
    found = target.evaluation
    running = target.state == Target.State.RUNNING and found is not None
    return f"{found.num_answered:,} of {found.num_rows:,} rows" if running and found is not None else ""


def _interval(target: Target) -> dict[str, Any] | None:
    """A target's score with its interval, as the score partial draws it."""
    if target.mean_score is None:
        return None
    report = (target.evaluation.report if target.evaluation else None) or {}
    return {"meanScore": target.mean_score, "interval": report.get("interval")}
