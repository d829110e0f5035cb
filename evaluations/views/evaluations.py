"""Pages of evaluations: the list, the start form, and one evaluation with its wrong rows first."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from datasets.queries import list_datasets
from evaluations import phases, queries
from evaluations.agreement_queries import labels_of
from evaluations.models import Evaluation, Prediction
from evaluations.operations.evaluations import Request, cancel_evaluation, retry_evaluation, start_evaluation
from evaluations.rules import compares_texts, parts_of
from evaluations.subject import Subject
from evaluations.views.marks import CHOICES, shown_agreement
from optimize_site.kernel import clock
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.graders import DEFAULT
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, wants_archived, whole
from optimize_site.kernel.marking import Piece, mark_difference
from optimize_site.kernel.refusals import go
from registry.base_model_queries import BaseModelState, list_base_models
from registry.model_queries import find_model, list_model_versions, serving_of, workload_of
from registry.workload_queries import get_workload, list_workloads

FILTERS = (("", "All"), ("open", "Open"), ("completed", "Completed"), ("failed", "Failed"), ("cancelled", "Cancelled"))
SHOWN = (("wrong", "Wrong first"), ("all", "In order"), ("unscored", "Unscored"))
VERDICTS = (("right", "Right"), ("partly", "Partly right"), ("wrong", "Wrong"), ("unscored", "Unscored"))
ROWS = 20


@require_GET
def evaluation_list(request: HtmxRequest) -> HttpResponse:
    """Evaluations, newest first; of one phase, workload or model."""
    phase, named = request.GET.get("phase", ""), request.GET.get("workload", "")
    workload = get_workload(named) if named else None
    archived = wants_archived(request)
    page = listed(request, queries.list_evaluations(phase=phase, workload=workload, archived=archived))
    template = "evaluations/list.html#live" if request.htmx else "evaluations/list.html"
    return render(request, template, page | {"filters": FILTERS, "phase": phase, "workload": workload,
                                             "archived": archived})


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HtmxRequest) -> HttpResponse:
    """The start form; what is left out comes from the model's workload."""
    sent = request.POST if request.method == "POST" else request.GET
    names = ("model", "workload", "dataset", "grader", "grader_instructions", "description")
    values = {name: sent.get(name, "").strip() for name in names}
    if request.method != "POST":
        return render(request, "evaluations/new.html", _form(values))
    asked = Request(**values, max_new_tokens=whole(sent.get("max_new_tokens"), least=-1))
    try:
        row = start_evaluation(asked, actor=actor_of(request)).evaluation
    except OperationError as error:
        if request.htmx or error.status == 403:
            raise
        return render(request, "evaluations/new.html", _form(values) | {"error": error}, status=error.status)
    messages.success(request, "The evaluation is on its way.", extra_tags="good")
    return go(request, reverse("evaluations:detail", args=[row.pk]))


def _form(values: dict[str, str]) -> dict[str, Any]:
    chosen = find_model(values["model"]) if values["model"] else None
    own = workload_of(chosen) if chosen is not None else None
    values = values | {"workload": values["workload"] or (own.name if own else "")}
    return {"values": values, "default_grader": DEFAULT, "workloads": list_workloads(),
            "models": [version for version in list_model_versions()[:500] if not serving_of(version).is_base],
            "base_models": [_choice(state) for state in list_base_models() if state.is_selected],
            "datasets": [artifact.reference for artifact in list_datasets()[:500]],
            "chosen": chosen.pk if chosen else values["model"]}


def _choice(state: BaseModelState) -> dict[str, str]:
    """A base model as the form offers it; an evaluation of one that is being prepared waits for it."""
    version = state.version
    if version is None:
        return {"value": state.repository, "text": f"{state.repository} (being prepared)"}
    return {"value": version.pk, "text": version.reference}


@require_GET
def detail(request: HtmxRequest, evaluation_id: str) -> HttpResponse:
    """One evaluation: its score with interval, per-field accuracy, confusion, and its rows."""
    row = queries.get_evaluation(evaluation_id)
    is_open = row.phase in phases.OPEN
    context = _page(request, row) | {"is_open": is_open, "actions_key": row.phase,
                                     "seen": request.GET.get("seen", "")}
    if request.htmx and request.GET.get("part") != "rows":
        return render(request, "evaluations/detail.html#live", context, status=200 if is_open else 286)
    return render(request, "evaluations/detail.html#rows" if request.htmx else "evaluations/detail.html", context)


def _page(request: HtmxRequest, row: Evaluation) -> dict[str, Any]:
    show = request.GET.get("show", "wrong")
    report = row.report or {}
    predictions = queries.list_predictions(row, wrong_first=show == "wrong")
    predictions = predictions.filter(score=None) if show == "unscored" else predictions
    total = row.num_rows
    return {"row": row, "report": report, "is_base": Subject(row.model, row.base_model).is_base,
            "show": show, "shown_ways": SHOWN,
            **_by_grader(row.grader, report),
            "asks_again": row.phase == phases.COMPLETED and queries.list_failures(row).exists(),
            "share": row.num_done / total if total else None, "eta_seconds": _eta(row),
            "confusion": [_shares(table) for table in report.get("confusion") or []],
            "causes": queries.count_causes(row) if row.num_unscored else {}, "page": _rows(request, row, predictions),
            "mark_choices": CHOICES, "agreement": shown_agreement(row)}


def _by_grader(grader: str, report: dict[str, Any]) -> dict[str, Any]:
    """What the page says in the grader's own terms: of its parts, or of whole rows where it has none."""
    parts, counts = parts_of(grader), report.get("verdicts") or {}
    total = sum(counts.values()) or 1
    return {"parts": parts or "part", "right_label": f"Every {parts} right" if parts else "Right in full",
            "verdicts": [{"label": label, "rows": counts[name], "share": counts[name] / total}
                         for name, label in VERDICTS if counts.get(name)]}


def _rows(request: HtmxRequest, row: Evaluation, predictions: Any) -> dict[str, Any]:
    page = listed(request, predictions, limit=ROWS)
    marks = compares_texts(row.grader)
    said = labels_of(page["rows"], by=actor_of(request).name)
    page["rows"] = [marked(prediction, marks_difference=marks) | {"mark": said.get(prediction.position)}
                    for prediction in page["rows"]]
    return page


def marked(row: Prediction, *, marks_difference: bool = True) -> dict[str, Any]:
    """A prediction with its difference marked, and what was asked.

    Nothing is marked where the difference is not what was scored, or where the texts mean the same.
    """
    expected, answer = mark_difference(row.expected, row.answer)
    if row.is_exact or not marks_difference:
        expected, answer = [Piece("same", row.expected)], [Piece("same", row.answer)]
    return {"row": row, "expected": expected, "answer": answer, "messages": row.prompt.get("messages", []),
            "asked": next((m for m in reversed(row.prompt.get("messages", [])) if m.get("role") == "user"), None)}


def _shares(table: dict[str, Any]) -> dict[str, Any]:
    """A confusion table whose cells know their share of the row, and whether they are right."""
    lines = []
    for label, counts in zip(table["labels"], table["counts"], strict=True):
        total = sum(counts) or 1
        lines.append({"label": label, "total": sum(counts),
                      "cells": [{"count": count, "share": count / total, "is_right": given == label}
                                for given, count in zip(table["columns"], counts, strict=True)]})
    return table | {"lines": lines}


def _eta(row: Evaluation) -> float | None:
    """What the answers so far say of the rest; nothing while there are too few to tell."""
    if row.phase != phases.EVALUATING or row.num_answered < 3:
        return None
    first = row.predictions.order_by("at").values_list("at", flat=True).first()
    spent = (clock.now() - first).total_seconds() if first else 0.0
    return spent / row.num_answered * (row.num_rows - row.num_answered)


@require_POST
def cancel(request: HtmxRequest, evaluation_id: str) -> HttpResponse:
    """Stop it."""
    row = cancel_evaluation(queries.get_evaluation(evaluation_id), actor=actor_of(request))
    messages.success(request, "The evaluation is being cancelled. What was answered stays.", extra_tags="good")
    return go(request, reverse("evaluations:detail", args=[row.pk]))


@require_POST
def retry(request: HtmxRequest, evaluation_id: str) -> HttpResponse:
    """Answer what is missing."""
    row = retry_evaluation(queries.get_evaluation(evaluation_id), actor=actor_of(request))
    messages.success(request, "The missing rows are being answered.", extra_tags="good")
    return go(request, reverse("evaluations:detail", args=[row.pk]))
