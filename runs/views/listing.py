"""The list of runs."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, wants_archived
from optimize_site.kernel.scores import best_scores_of_models
from runs import queries
from runs.compared_figures import last_figure
from runs.models import Run
from runs.outlook import Outlook, outlooks
from runs.phases import PHASES
from runs.views.naming import share, title
from runs.views.smoke import smoke_note

FILTERS = (("", "All"), ("open", "Open"), ("completed", "Completed"), ("failed", "Failed"), ("cancelled", "Cancelled"))


@require_GET
def run_list(request: HtmxRequest) -> HttpResponse:
    """Runs, newest first; of one phase or workload."""
    phase, workload = request.GET.get("phase", ""), request.GET.get("workload", "")
    archived = wants_archived(request)
    page = listed(request, queries.list_runs(phase=phase, workload=workload, archived=archived))
    scores = best_scores_of_models(run.model_id for run in page["rows"] if run.model_id)
    ahead = outlooks(page["rows"])
    page["rows"] = [_listed(run, scores, ahead[run.pk]) for run in page["rows"]]
    template = "runs/list.html#live" if request.htmx else "runs/list.html"
    return render(request, template, page | {"filters": FILTERS, "phase": phase, "workload": workload,
                                             "archived": archived})


def _listed(run: Run, scores: dict[str, Any], outlook: Outlook) -> dict[str, Any]:
    return {"run": run, "title": title(run), "is_open": run.phase in PHASES.open, "last": last_figure(run),
            "wait_reason": outlook.wait_reason, "smoke": smoke_note(run),
            "share": share(run), "score": scores.get(run.model_id or "")}
