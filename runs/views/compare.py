"""Runs beside each other: their curves on one chart, where they part, what their configurations differ in."""

from shlex import quote
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import whole
from runs import queries
from runs.compare_text import name_of, spike_words
from runs.compared_figures import NAMED, NORM, Figure, kind_of
from runs.comparing import MOST_RUNS, compare_runs
from runs.errors import PlansDiffer
from runs.loss_windows import Terms
from runs.models import Run
from runs.phases import PHASES
from runs.series import curve
from runs.views.curves import timed
from runs.views.naming import title

NORMS = Figure("gradNorm", NORM, "Gradient norm", "gradient norm", 0)


@require_GET
def page(request: HtmxRequest) -> HttpResponse:
    """The runs that the address names; without any, the form to name them."""
    (runs, error), terms = _runs(request), _terms(request)
    context: dict[str, Any] = {"runs": runs, "terms": terms, "error": error, "names": [run.pk for run in runs],
                               "asked": request.GET.urlencode(), **_as_command(runs, terms)}
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
                 _number(sent.get("spike_factor"), Terms.spike_factor), sent.get("across") == "yes",
                 sent.get("figure", ""))


def _as_command(runs: list[Run], terms: Terms) -> dict[str, str]:
    """The page as the command and the route that say the same."""
    command, query = " ".join(run.pk for run in runs) or "A B", [("run", run.pk) for run in runs]
    if terms.across_plans:
        command, query = f"{command} --across-plans", [*query, ("acrossPlans", "true")]
    if terms.figure:
        command, query = f"{command} --figure {quote(terms.figure)}", [*query, ("figure", terms.figure)]
    return {"command": f"runs compare {command}", "path": f"/v1/training/runs/compare?{urlencode(query)}"}


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
    figure, figures = NAMED[found["figure"]], [NAMED[name] for name in found["figures"]]
    pairs = [{"found": pair, "title": names[number + 1]} for number, pair in enumerate(found["pairs"])]
    return {"found": found, "is_open": any(run.phase in PHASES.open for run in runs), "pairs": pairs,
            "figure": figure, "figure_words": name_of(figure.name), "figures": figures,
            "rows": [{"run": run, "title": name, "spikes": spike_words(document["spikes"]), "document": document}
                     for run, name, document in zip(runs, names, found["runs"], strict=True)],
            "windows": _windows(found, figure), "charts": [_chart(runs, names, one, is_big=one == figure)
                                                           for one in _charted(figures, figure)]}


def _charted(figures: list[Figure], figure: Figure) -> list[Figure]:
    """What is drawn: the figure that the runs are compared by, then what else they report."""
    return [figure, *(other for other in figures if other != figure), NORMS]


def _windows(found: dict[str, Any], figure: Figure) -> list[dict[str, Any]]:
    """A row for each window: the mean difference of each run, and whether it is over the margin."""
    by_run = [{window["first"]: window for window in pair["windows"]} for pair in found["pairs"]]
    firsts = sorted({first for windows in by_run for first in windows})
    return [{"first": first, "last": first + found["window"] - 1,
             "cells": [_cell(windows.get(first), found["margin"], figure) for windows in by_run]} for first in firsts]


def _cell(window: dict[str, Any] | None, margin: float, figure: Figure) -> dict[str, Any] | None:
    """A mean difference with the words that do not leave it to a colour."""
    if window is None:
        return None
    found = window["meanDifference"]
    tone = {1: "good", -1: "bad"}.get(figure.better * (1 if found > 0 else -1), "")
    return window | {"is_apart": abs(found) > margin, "words": "lower" if found < 0 else "higher", "tone": tone}


def _chart(runs: list[Run], names: list[str], figure: Figure, *, is_big: bool) -> dict[str, Any]:
    return {"title": figure.title, "term": figure.term, "is_big": is_big, "labels": "|".join(names),
            "names": ",".join(f"{figure.stored}-{run.pk}" for run in runs)}


@require_GET
def series(request: HtmxRequest) -> HttpResponse:
    """The curves of the runs that the address names, whole each time."""
    runs, error = _runs(request)
    if error is not None:
        raise error
    drawn = [figure.stored for figure in (*kind_of(runs).figures, NORMS)] if runs else []
    return JsonResponse({"isWhole": True, "attempt": 0, "last": 0, "replaced": {}, "marks": [],
                         "series": {name: found for run in runs for name, found in _series(run, drawn)}})


def _series(run: Run, drawn: list[str]) -> list[tuple[str, dict[str, list[Any]]]]:
    rows: list[Any] = list(run.metrics.order_by("step").values("step", "values", "at"))
    began = rows[0]["at"] if rows else None
    return [(f"{name}-{run.pk}", timed(curve(rows, name), rows, began)) for name in drawn]
