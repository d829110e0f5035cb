"""Pages of trials: one input asked of a model, and the answers as they come."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from endpoints import phases
from endpoints.models import Trial
from endpoints.operations.trials import start_trial
from endpoints.queries import get_trial
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from registry.model_queries import get_model, serving_of


@require_POST
def try_it(request: HtmxRequest, model_id: str) -> HttpResponse:
    """Ask the model one thing, with its base model beside it."""
    said, system = request.POST.get("input", ""), request.POST.get("instructions", "").strip()
    asked = ([{"role": "system", "content": system}] if system else []) + [{"role": "user", "content": said}]
    trial = start_trial(get_model(model_id), asked, actor=actor_of(request))
    return _trial(request, trial)


@require_GET
def trial(request: HtmxRequest, trial_id: str) -> HttpResponse:
    """The answers that came so far."""
    return _trial(request, get_trial(trial_id))


def _trial(request: HtmxRequest, row: Trial) -> HttpResponse:
    is_open = row.phase in phases.OPEN
    serving = serving_of(row.model)
    sides = [("candidate", row.model.reference)] if not serving.is_base else []
    context = {"trial": row, "is_open": is_open, "base": serving.base_model,
               "sides": [{"name": name, "label": label, "found": row.answers.get(name)}
                         for name, label in [*sides, ("base", serving.base_model)]]}
    if not request.htmx:
        return render(request, "models/trial.html", context)
    return render(request, "models/trial.html#answers", context, status=200 if is_open else 286)
