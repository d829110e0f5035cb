"""A run's saves: the tab of its page, one save whole, and keeping, releasing and registering it."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed
from optimize_site.kernel.refusals import go
from runs import queries
from runs.models import Candidate, Run, Snapshot
from runs.operations import pin_snapshot, register_candidate, release_snapshot, unpin_snapshot
from runs.render import holders_of, snapshot_record
from runs.snapshots import WEIGHTS, kinds_of
from runs.storage import storage_of
from runs.views.naming import title

WORDS = {"weights": "weights", "trainingState": "training state"}


def snapshots_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    """The run's saves, newest first, what each holds, who holds it, and what all of them take."""
    page = listed(request, queries.snapshots_of(run))
    page["rows"] = [shown(snapshot) for snapshot in page["rows"]]
    return page | {"save_every": run.execution.get("saveEvery"), "storage": storage_of(run)}


def shown(snapshot: Snapshot) -> dict[str, Any]:
    """A save as its row shows it."""
    kinds = kinds_of(snapshot)
    return {"snapshot": snapshot, "kinds": [WORDS[kind] for kind in kinds],
            "swept": [WORDS[kind] for kind in snapshot.swept], "holders": _holders(snapshot),
            "has_weights": WEIGHTS in kinds, "candidate": getattr(snapshot, "candidate", None),
            "pin_why_not": "" if kinds else "Nothing of it is left to keep."}


def _holders(snapshot: Snapshot) -> list[dict[str, str]]:
    """Who holds a save, each once with the kinds that it holds."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for held in holders_of(snapshot):
        kinds.setdefault((held["holder"], held["holderId"]), []).append(WORDS[held["kind"]])
    return [{"holder": holder, "holderId": pk, "kinds": ", ".join(sorted(held, reverse=True)),
             "url": reverse("runs:detail", args=[pk]) if holder == "run" else ""}
            for (holder, pk), held in kinds.items()]


@require_GET
def detail(request: HtmxRequest, snapshot_id: str) -> HttpResponse:
    """One save: where it comes from, each kind with its digest, who holds it, the model made of it."""
    snapshot = queries.get_snapshot(snapshot_id)
    candidate = Candidate.objects.filter(snapshot=snapshot).select_related("version__artifact").first()
    return render(request, "runs/snapshot.html", {
        "snapshot": snapshot, "entry": shown(snapshot), "candidate": candidate, "record": snapshot_record(snapshot),
        "run": snapshot.run, "title": title(snapshot.run)})


@require_POST
def pin(request: HtmxRequest, snapshot_id: str) -> HttpResponse:
    """Keep it, or one kind of it, whatever retention says."""
    kind = request.POST.get("kind", "")
    snapshot = pin_snapshot(queries.get_snapshot(snapshot_id), kind=kind, actor=actor_of(request))
    return _told(request, snapshot, f"The save's {WORDS[kind]} stay until they are unpinned." if kind
                 else "The save stays until it is unpinned.")


@require_POST
def unpin(request: HtmxRequest, snapshot_id: str) -> HttpResponse:
    """Leave it, or one kind of it, to retention again."""
    kind = request.POST.get("kind", "")
    snapshot = unpin_snapshot(queries.get_snapshot(snapshot_id), kind=kind, actor=actor_of(request))
    return _told(request, snapshot, f"The save's {WORDS[kind]} are left to retention." if kind
                 else "The save is left to retention.")


@require_POST
def release(request: HtmxRequest, snapshot_id: str) -> HttpResponse:
    """Clear a hold that was left behind."""
    owner = request.POST.get("owner", "")
    snapshot = release_snapshot(queries.get_snapshot(snapshot_id), owner, actor=actor_of(request))
    messages.success(request, "The hold is cleared.", extra_tags="good")
    return go(request, reverse("runs:snapshot", args=[snapshot.pk]))


@require_POST
def register(request: HtmxRequest, snapshot_id: str) -> HttpResponse:
    """Make a model of its weights."""
    snapshot = queries.get_snapshot(snapshot_id)
    register_candidate(snapshot, actor=actor_of(request))
    return _told(request, snapshot, "A model is being made of the save.")


def _told(request: HtmxRequest, snapshot: Snapshot, words: str) -> HttpResponse:
    messages.success(request, words, extra_tags="good")
    return go(request, f"{reverse('runs:detail', args=[snapshot.run_id])}?tab=snapshots")
