"""Pages of judges: which models are or were held to grade answers, for what, and how far they agree with people."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from endpoints.models import Judge
from endpoints.phases import RELEASED
from endpoints.queries import events_of, get_judge, list_judges
from endpoints.render import judge_document
from evaluations.agreement_queries import agreement_of_model, agreement_of_newest
from evaluations.judging import HOLDER
from evaluations.models import Evaluation
from optimize_site.kernel.feeds import Item, finder
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import SHOWN, looks_like_id
from optimize_site.kernel.listing import listed
from optimize_site.kernel.words import event_words
from runs.models import Run
from runs.pages import title_of

FILTERS = (("", "All"), ("open", "Held now"), (RELEASED.lower(), "Given back"), ("failed", "Failed"))
FOUND, EVENTS = 5, 50
GRADERS = 20
"""Graders whose agreement stands on the list: each is read anew from all that it scored."""


@require_GET
def judge_list(request: HtmxRequest) -> HttpResponse:
    """Judges, newest first, and below them how far the graders that were asked last agree with what people marked."""
    phase, held_for = request.GET.get("phase", ""), request.GET.get("for", "")
    page = listed(request, list_judges(phase=phase, held_for=held_for))
    page["rows"] = _shown(page["rows"])
    context = page | {"filters": FILTERS, "phase": phase, "held_for": held_for}
    if request.htmx:
        return render(request, "judges/list.html#live", context)
    graders, is_cut = agreement_of_newest(GRADERS)
    return render(request, "judges/list.html", context | {"graders": graders, "is_cut": is_cut, "most": GRADERS})


@require_GET
def detail(request: HtmxRequest, judge_id: str) -> HttpResponse:
    """One judge: whom it is held for, how far it is, what it takes, and what its verdicts are worth."""
    row = get_judge(judge_id)
    (shown,) = _shown([row])
    context = {"row": row, "judge": shown, "is_open": row.ended_at is None, "events": [
        {"at": event.at, "words": event_words(event.type), "actor": event.actor, "reason": event.reason}
        for event in events_of(row)[:EVENTS]]}
    if request.htmx:
        return render(request, "judges/detail.html#live", context, status=200 if row.ended_at is None else 286)
    return render(request, "judges/detail.html", context | {"graders": agreement_of_model(row.model.reference)})


def _shown(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """The judges' documents, each with the page of its model and of whom it is held for."""
    rows = list(rows)
    held = {kind: [row.holder_id for row in rows if row.holder_kind == kind] for kind in ("run", HOLDER)}
    holders: dict[str, Item] = {}
    for run in Run.objects.filter(pk__in=held["run"]):
        holders[run.pk] = Item("Run", title_of(run.config_name, run.description, run.pk),
                               reverse("runs:detail", args=[run.pk]), run.phase)
    for evaluation in Evaluation.objects.filter(pk__in=held[HOLDER]).select_related("model__artifact"):
        holders[evaluation.pk] = Item("Evaluation", f"of {evaluation.model_name}",
                                      reverse("evaluations:detail", args=[evaluation.pk]), evaluation.phase)
    return [judge_document(row) | {"holder": holders.get(row.holder_id)} for row in rows]


@finder
def judges_by_id(text: str) -> Iterable[Item]:
    """Judges by the beginning of their ID, as the box's devices name who holds them."""
    if looks_like_id(text.lower()):
        for row in Judge.objects.filter(pk__startswith=text.lower()).select_related("model__artifact")[:FOUND]:
            yield Item("Judge", f"{row.model.reference} ({row.pk[:SHOWN]})",
                       reverse("evaluations:judge", args=[row.pk]), at=row.created_at)
