"""Verifying a run from its page."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from runs import queries
from runs.operations import verify_run


@require_GET
def page_part(request: HtmxRequest, run_id: str) -> HttpResponse:
    """What was looked at, and each disagreement; with `?replay=1` a stretch is trained once more as well."""
    found = verify_run(queries.get_run(run_id), replayed=request.GET.get("replay") == "1", actor=actor_of(request))
    return render(request, "runs/_verified.html", {"found": found})
