"""Marking answers on an evaluation's page."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST

from evaluations import queries
from evaluations.agreement_queries import agreement_of, labels_of
from evaluations.errors import MalformedMark
from evaluations.models import Evaluation, Mark
from evaluations.operations.marks import Wish, mark_answers, read_mark
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.refusals import go

CHOICES = [{"label": "Right", "value": "right", "score": 1.0}, {"label": "Half", "value": "0.5", "score": 0.5},
           {"label": "Wrong", "value": "wrong", "score": 0.0}]


def shown_agreement(row: Evaluation) -> dict[str, Any] | None:
    """How far the grader agrees with people; None where nobody marked an answer to these rows."""
    return agreement_of(row) if Mark.objects.filter(content_hash=row.content_hash).exists() else None


@require_POST
def mark(request: HtmxRequest, evaluation_id: str) -> HttpResponse:
    """Keep what the person says of one answer; gives its buttons and the agreement, as they are now."""
    row, actor = queries.get_evaluation(evaluation_id), actor_of(request)
    position = request.POST.get("position", "")
    if not position.isdecimal() or len(position) > 9:
        raise MalformedMark(f"{position[:40]!r} is no row.")
    mark_answers(row, [Wish(int(position), read_mark(request.POST.get("mark", "")))], actor=actor)
    if not request.htmx:
        return go(request, reverse("evaluations:detail", args=[row.pk]))
    prediction = row.predictions.get(position=int(position))
    response = render(request, "evaluations/_mark.html", {
        "prediction": prediction, "mark_choices": CHOICES,
        "mark": labels_of([prediction], by=actor.name).get(prediction.position)})
    response.write(render_to_string("evaluations/_agreement.html", {"agreement": shown_agreement(row),
                                                                   "swapped": True}, request=request))
    return response
