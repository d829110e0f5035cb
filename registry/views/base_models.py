"""Pages of base models."""

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.catalog import load_catalog
from optimize_site.kernel.feeds import Item, feed, finder
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.refusals import go
from registry import phases
from registry.base_model_queries import BaseModelState, get_base_model, list_base_models
from registry.operations.base_models import deselect_base_model, select_base_model

PAGE = "registry:base-models"


@require_GET
def base_models(request: HtmxRequest) -> HttpResponse:
    """Every base model that the box allows, with its state and what selecting it would do."""
    states = list_base_models(every=True)
    catalog = load_catalog()
    rows = [{"state": state, "word": list_word(state), "progress": progress_of(state),
             "methods": catalog.methods_of(state.entry) if state.entry else []} for state in states]
    template = "registry/base_models.html#live" if request.htmx else "registry/base_models.html"
    return render(request, template, {"rows": rows})


@require_GET
def base_model(request: HtmxRequest, name: str) -> HttpResponse:
    """What is known of one base model."""
    state = get_base_model(name)
    catalog = load_catalog()
    template = "registry/base_model.html#live" if request.htmx else "registry/base_model.html"
    return render(request, template, {"state": state, "word": list_word(state), "progress": progress_of(state),
                                      "methods": catalog.methods_of(state.entry) if state.entry else [],
                                      "command": f"base-models get {state.repository}",
                                      "route": f"/v1/training/base-models/{state.id}"})


@require_POST
def select(request: HtmxRequest, name: str) -> HttpResponse:
    """Ask for it to be prepared."""
    state = select_base_model(name, actor=actor_of(request))
    messages.success(request, f"{state.repository} is being prepared.", extra_tags="good")
    return go(request, reverse(PAGE))


@require_POST
def deselect(request: HtmxRequest, name: str) -> HttpResponse:
    """Back to allowed, not chosen."""
    state = deselect_base_model(name, actor=actor_of(request))
    messages.success(request, f"{state.repository} is no longer chosen.", extra_tags="good")
    return go(request, reverse(PAGE))


def list_word(state: BaseModelState) -> str:
    """The state as the page names it."""
    if state.is_leaving:
        return "STOPPING"
    return state.phase if state.phase not in {"", phases.DESELECTED} else "NOT_SELECTED"


def progress_of(state: BaseModelState) -> dict[str, Any]:
    """How far a preparation is: `share` from 0 to 1 (or None), what it is doing, how much of how much."""
    found = state.row.progress if state.row is not None and state.phase in phases.UNDER_WAY else {}
    done, total = found.get("done"), found.get("total")
    return found | {"share": min(1.0, done / total) if done is not None and total else None}


def _item(state: BaseModelState) -> Item:
    progress = progress_of(state)
    return Item("Base model", state.repository, reverse("registry:base-model", args=[state.id]), list_word(state),
                detail=state.failure, share=progress["share"], note=str(progress.get("stage") or "").capitalize())


@feed("base-models")
def chosen_base_models(_: Any) -> Iterator[Item]:
    """The chosen base models, for the box page."""
    yield from map(_item, list_base_models())


@feed("now", 80)
def preparing_base_models(_: Any) -> Iterator[Item]:
    """What is being fetched."""
    yield from (_item(state) for state in list_base_models() if state.phase in {phases.PREPARING, phases.FETCHING})


@feed("waiting", 80)
def waiting_base_models(_: Any) -> Iterator[Item]:
    """What waits to be fetched."""
    yield from (_item(state) for state in list_base_models() if state.phase == phases.PENDING)


@feed("attention", 60)
def refused_base_models(_: Any) -> Iterator[Item]:
    """Base models that could not be prepared."""
    yield from (_item(state) for state in list_base_models() if state.is_refused)


@feed("checklist", 10)
def choose_one(_: Any) -> Iterator[Item]:
    """The first step of a new box."""
    chosen = [state for state in list_base_models() if state.is_selected]
    ready = [state for state in chosen if state.is_ready]
    detail = "The ready-made model that yours starts from. A small one is quick to try."
    if chosen:
        first = (ready or chosen)[0]
        detail = f"{first.repository} is ready." if ready else f"{first.repository} is being prepared."
    yield Item("", "Choose a base model", reverse(PAGE), detail=detail, is_done=bool(ready), action="Choose")


@finder
def base_models_named(text: str) -> Iterator[Item]:
    """Base models by repository or entry ID."""
    wanted = text.lower()
    yield from (_item(state) for state in list_base_models(every=True)
                if wanted in state.repository.lower() or state.id.startswith(wanted))
