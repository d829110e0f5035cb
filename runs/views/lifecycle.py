"""A run's pausing, going on and place in the queue: the buttons, what each is refused for, and how a pause stands."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.refusals import go
from runs import queries
from runs.models import Run
from runs.operations import (
    annotate_run,
    pause_run,
    prioritize_run,
    resume_run,
    why_not_continue,
    why_not_pause,
    why_not_prioritize,
)
from runs.phases import BEFORE_A_JOB

CHECKPOINTS = (
    ("save", "Save first", "It writes a snapshot after the update it is at, then rests. Nothing is trained twice."),
    ("latest", "Stop at once", "It ends now and keeps the newest save. The updates since then are trained again."))


def standing(run: Run) -> dict[str, Any]:
    """What a run's page shows of its pause, its place in the queue and its parent."""
    ways = [{"value": value, "label": label, "help": words, "why_not": why_not_pause(run, value)}
            for value, label, words in CHECKPOINTS]
    branch_from, why_not = queries.newest_branchable(run), why_not_continue(run)
    asked = f"{(run.pause or {}).get('state', '')}-{bool(run.cancel_requested_at)}"
    return {"pause": run.pause, "pause_ways": ways, "branch_from": branch_from,
            "continue_why_not": why_not,
            "pause_why_not": "" if any(not way["why_not"] for way in ways) else ways[0]["why_not"],
            "is_waiting": run.phase in BEFORE_A_JOB and run.phase != "PAUSED",
            "prioritize_why_not": why_not_prioritize(run), "source": run.source_snapshot,
            "actions_key": f"{run.phase}-{asked}-{bool(branch_from)}-{not why_not}"}


@require_POST
def pause(request: HtmxRequest, run_id: str) -> HttpResponse:
    """Ask the run to rest."""
    run = queries.get_run(run_id)
    is_new = pause_run(run, checkpoint=request.POST.get("checkpoint", ""), actor=actor_of(request)).is_new
    words = "The run is pausing." if is_new else "It was pausing already."
    return _told(request, run, "The run is paused." if run.phase == "PAUSED" else words)


@require_POST
def resume(request: HtmxRequest, run_id: str) -> HttpResponse:
    """Go on with a paused run."""
    run = resume_run(queries.get_run(run_id), actor=actor_of(request))
    return _told(request, run, "The run goes on as soon as a device is free.")


@require_POST
def prioritize(request: HtmxRequest, run_id: str) -> HttpResponse:
    """Put a waiting run in front of the others."""
    run = prioritize_run(queries.get_run(run_id), actor=actor_of(request))
    return _told(request, run, "It is the next to get a device of its kind.")


@require_POST
def annotate(request: HtmxRequest, run_id: str) -> HttpResponse:
    """Set or clear its note and its configuration's name."""
    sent = request.POST
    run = annotate_run(queries.get_run(run_id), description=sent.get("description"),
                       config_name=sent.get("config_name"), actor=actor_of(request))
    return _told(request, run, "The note is kept." if run.description or run.config_name else "The note is cleared.")


def _told(request: HtmxRequest, run: Run, words: str) -> HttpResponse:
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("runs:detail", args=[run.pk]))
