"""Runs beside each other: their curves on one chart, where their losses part, what their configurations differ in."""

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import whole
from runs import queries
from runs.compare_text import spike_words
from runs.comparing import MOST_RUNS, compare_runs
from runs.errors import PlansDiffer
from runs.loss_windows import Terms
from runs.models import Run
from runs.phases import PHASES
from runs.series import curve
from runs.views.curves import timed
from runs.views.naming import title

FIGURES = ("loss", "grad_norm")
CHARTS = (("loss", "Loss", "loss", True), ("grad_norm", "Gradient norm", "gradient norm", False))


@require_GET
def page(request: HtmxRequest) -> HttpResponse:
    """The runs that the address names; without any, the form to name them."""
    (runs, error), terms = _runs(request), _terms(request)
    context: dict[str, Any] = {"runs": runs, "terms": terms, "error": error, "names": [run.pk for run in runs],
                               "asked": request.GET.urlencode()}
    if runs and error is None:
        context |= _compared(runs, terms)
    if request.htmx:
        return render(request, "runs/compare.html#live", context, status=200 if context.get("is_open") else 286)
    return render(request, "runs/compare.html", context)


def _runs(request: HtmxRequest) -> tuple[list[Run], OperationError | None]:
    """The named runs, each once, and the refusal of the first that does not exist."""
    found: dict[str, Run] = {}
    try:
        for text in " ".join(request.GET.getlist("run")).replace(",", " ").split()[:MOST_RUNS + 1]:
            run = queries.get_run(text)
            found.setdefault(run.pk, run)
    except OperationError as error:
        return list(found.values()), error
    return list(found.values()), None


def _terms(request: HtmxRequest) -> Terms:
    sent = request.GET
    return Terms(whole(sent.get("window"), least=1, default=Terms.window), _number(sent.get("margin"), Terms.margin),
                 _number(sent.get("spike_factor"), Terms.spike_factor), sent.get("across") == "yes")


def _number(text: str | None, default: float) -> float:
    try:
        found = float(text or default)
    except ValueError:
        return default
    return found if 0 <= found < 1e9 else default


def _compared(runs: list[Run], terms: Terms) -> dict[str, Any]:
    try:
        found = compare_runs(runs, terms)
    except OperationError as error:
        return {"error": error, "may_cross": isinstance(error, PlansDiffer)}
    names = [title(run).replace("|", "/") for run in runs]
    pairs = [{"found": pair, "title": names[number + 1]} for number, pair in enumerate(found["pairs"])]
    return {"found": found, "is_open": any(run.phase in PHASES.open for run in runs), "pairs": pairs,
            "rows": [{"run": run, "title": name, "spikes": spike_words(document["spikes"]), "document": document}
                     for run, name, document in zip(runs, names, found["runs"], strict=True)],
            "windows": _windows(found), "charts": [_chart(runs, names, *chart) for chart in CHARTS]}


def _windows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each window: the mean difference of each run, and whether it is over the margin."""
    by_run = [{window["first"]: window for window in pair["windows"]} for pair in found["pairs"]]
    firsts = sorted({first for windows in by_run for first in windows})
    return [{"first": first, "last": first + found["window"] - 1,
             "cells": [_cell(windows.get(first), found["margin"]) for windows in by_run]} for first in firsts]


def _cell(window: dict[str, Any] | None, margin: float) -> dict[str, Any] | None:
    return window and window | {"is_apart": abs(window["meanDifference"]) > margin,
                                "is_lower": window["meanDifference"] < 0}


def _chart(runs: list[Run], names: list[str], figure: str, heading: str, term: str, is_big: bool) -> dict[str, Any]:
    return {"title": heading, "term": term, "is_big": is_big, "labels": "|".join(names),
            "names": ",".join(f"{figure}-{run.pk}" for run in runs)}


@require_GET
def series(request: HtmxRequest) -> HttpResponse:
    """The curves of the runs that the address names, whole each time."""
    runs, error = _runs(request)
    if error is not None:
        raise error
    return JsonResponse({"isWhole": True, "attempt": 0, "last": 0, "replaced": {}, "marks": [],
                         "series": {name: found for run in runs for name, found in _series(run)}})


def _series(run: Run) -> list[tuple[str, dict[str, list[Any]]]]:
    rows: list[Any] = list(run.metrics.order_by("step").values("step", "values", "at"))
    began = rows[0]["at"] if rows else None
    return [(f"{figure}-{run.pk}", timed(curve(rows, figure), rows, began)) for figure in FIGURES]
