"""Pages of runs: the list, the guided form, one run with its curves, and what other pages show of them."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from datasets.queries import list_datasets
from datasets.queries import rows as dataset_rows
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import NotFound, OperationError
from optimize_site.kernel.feeds import Item, feed, finder
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import looks_like_id, new_id
from optimize_site.kernel.listing import listed, whole
from optimize_site.kernel.refusals import go
from optimize_site.kernel.scores import best_scores_of_models
from optimize_site.kernel.services import tail
from optimize_site.kernel.templatetags.ui import duration
from optimize_site.kernel.words import event_words, state_word
from optimize_site.kernel.work import attempt_folder
from registry.base_model_queries import list_base_models
from registry.models import Version
from registry.workload_queries import list_workloads
from runs import forms, queries
from runs.models import Run
from runs.operations import cancel_run, check_run, submit_run
from runs.pages import CURVES, settings_rows, share_of, strip, title_of
from runs.phases import BEFORE_A_JOB, PHASES
from runs.series import curve

FILTERS = (("", "All"), ("open", "Open"), ("completed", "Completed"), ("failed", "Failed"), ("cancelled", "Cancelled"))
TABS = (("snapshots", "Snapshots"), ("data", "Data fit"), ("settings", "Settings"), ("checks", "Checks"),
        ("logs", "Logs"), ("events", "Events"))
PREVIEW_ROWS = 2
VALIDATION = "validation_loss"


# The list ------------------------------------------------------------------------------------------------------------


@require_GET
def run_list(request: HtmxRequest) -> HttpResponse:
    """Runs, newest first; of one phase or workload."""
    phase, workload = request.GET.get("phase", ""), request.GET.get("workload", "")
    page = listed(request, queries.list_runs(phase=phase, workload=workload))
    scores = best_scores_of_models(run.model_id for run in page["rows"] if run.model_id)
    page["rows"] = [_listed(run, scores) for run in page["rows"]]
    template = "runs/list.html#live" if request.htmx else "runs/list.html"
    return render(request, template, page | {"filters": FILTERS, "phase": phase, "workload": workload})


def _listed(run: Run, scores: dict[str, Any]) -> dict[str, Any]:
    newest = run.metrics.order_by("-step").values_list("values", flat=True).first() or {}
    return {"run": run, "title": title(run), "is_open": run.phase in PHASES.open, "loss": newest.get("loss"),
            "share": share(run), "score": scores.get(run.model_id or "")}


def title(run: Run) -> str:
    """What a run is called."""
    return title_of(run.config_name, run.description, run.pk)


def share(run: Run) -> float | None:
    """How far the run's present part is."""
    return share_of(run.phase, run.observed_step, run.total_steps, run.stage)


# One run -------------------------------------------------------------------------------------------------------------


@require_GET
def detail(request: HtmxRequest, run_id: str) -> HttpResponse:
    """One run: its phases, progress and curves, and one tab of the rest."""
    run = queries.get_run(run_id)
    tab = request.GET.get("tab", "")
    context = _live(run) | {"curves": CURVES}
    if request.htmx and not tab:
        # The page is whole once more after the end; then its polling stops (HTMX's 286).
        return render(request, "runs/detail.html#live", context, status=200 if context["is_open"] else 286)
    tab = tab if tab in dict(TABS) else "snapshots"
    context |= {"tabs": TABS, "tab": tab, "tab_template": f"runs/tab_{tab}.html"} | TAB_CONTEXTS[tab](run)
    return render(request, "runs/detail.html#tab" if request.htmx else "runs/detail.html", context)


def _live(run: Run) -> dict[str, Any]:
    now = timezone.now()
    is_open = run.phase in PHASES.open
    loss = queries.loss_summary(run)
    cost = queries.cost_of(run)
    run.wait_reason = queries.wait_reason(run) or run.wait_reason
    run.device_seconds = cost["deviceSeconds"]
    return {
        "run": run, "title": title(run), "is_open": is_open, "dataset": run.references.get("dataset") or {},
        "strip": strip(run.phase, run.phase_millis, run.phase_since, now), "share": share(run),
        "bar_tone": {"COMPLETED": "good", "FAILED": "bad"}.get(run.phase, "" if is_open else "soft"),
        "eta_seconds": queries.eta_seconds(run), "loss": loss or {}, "throughput": queries.mean_throughput(run),
        "validation": run.summary.get("validation"), "has_validation": bool(run.references.get("validationDataset")),
        "repeat": max(0, run.observed_step - run.saved_step) if run.saved_step is not None else None,
        "stage_text": _stage_text(run), "cost_text": _cost_text(cost), "result": _result(run),
        "cancel_why_not": "Its work is done; it ends by itself in a moment."
        if run.phase in {"RECORDING", "CLEANING_UP"} else "Cancel was asked for." if run.cancel_requested_at else "",
    }


def _stage_text(run: Run) -> str:
    stage = run.stage
    if run.phase not in PHASES.active or not stage.get("name") or run.phase == "TRAINING":
        return ""
    words = str(stage["name"]).replace("_", " ").capitalize()
    return f"{words}: {stage.get('done') or 0:,} of {stage['total']:,}" if stage.get("total") else words


def _cost_text(cost: dict[str, Any]) -> str:
    parts = [f"cost {cost['amount']:,.2f}"] if cost["ratePerDeviceHour"] else []
    return ", ".join([*parts, "so far"] if cost["isEstimate"] else parts)


def _result(run: Run) -> dict[str, Any] | None:
    return best_scores_of_models([run.model_id]).get(run.model_id) if run.model_id else None


def _snapshots_tab(run: Run) -> dict[str, Any]:
    return {"snapshots": queries.snapshots_of(run), "save_every": run.execution.get("saveEvery")}


def _data_tab(run: Run) -> dict[str, Any]:
    fit = run.data_fit or {}
    validation = fit.get("validation") or {}
    total = fit.get("totalTokens")
    return {"fit": fit, "fit_share": fit["trainedTokens"] / total if total else None, "fit_rows": _fit_rows(fit),
            "validation_fit_rows": _fit_rows(validation)}


def _fit_rows(fit: dict[str, Any]) -> list[tuple[str, str]]:
    words = {"rows": "Rows", "tooLong": "Too long, left out", "trimmed": "Trimmed", "longest": "Longest row, tokens",
             "totalTokens": "Tokens", "trainedTokens": "Trained tokens"}
    rows = [(label, f"{fit[key]:,}") for key, label in words.items() if isinstance(fit.get(key), int)]
    if fit.get("paddingShare") is not None:
        rows.append(("Padding", f"{fit['paddingShare'] * 100:.1f}%"))
    return rows


def _settings_tab(run: Run) -> dict[str, Any]:
    return {"settings": settings_rows(run.config, run.execution, run.stated)}


def _logs_tab(run: Run) -> dict[str, Any]:
    return {"attempts": [{"row": attempt, "stderr": tail(attempt_folder(attempt.pk) / "stderr.log"),
                          "stdout": tail(attempt_folder(attempt.pk) / "stdout.log")}
                         for attempt in queries.attempts_of(run).order_by("-number")[:3]]}


def _events_tab(run: Run) -> dict[str, Any]:
    found = list(queries.events_of(run).order_by("-id")[:200])
    return {"events": [{"at": event.at, "words": event_words(event.type), "actor": event.actor, "reason": event.reason}
                       for event in found]}


TAB_CONTEXTS = {"snapshots": _snapshots_tab, "data": _data_tab, "settings": _settings_tab,
                "checks": lambda run: {"checks": run.checks}, "logs": _logs_tab, "events": _events_tab}


@require_GET
def series(request: HtmxRequest, run_id: str) -> HttpResponse:
    """The run's curves after a step, or the whole of them where another attempt took over meanwhile.

    A validation is written beside its step's figures after those were read, so its curve always comes whole.
    """
    run = queries.get_run(run_id)
    after = whole(request.GET.get("after"))
    is_whole = after == 0 or request.GET.get("attempt") != str(run.num_attempts)
    steps = run.metrics.order_by("step").values("step", "values", "at")
    rows: list[Any] = list(steps if is_whole else steps.filter(step__gt=after))
    judged: list[Any] = list(steps.filter(values__has_key=VALIDATION))
    began = run.metrics.order_by("step").values_list("at", flat=True).first()
    names = {name for chart in CURVES for name in str(chart["names"]).split(",")} - {VALIDATION}
    found = {name: _timed(curve(rows, name), rows, began) for name in sorted(names)}
    return JsonResponse({
        "isWhole": is_whole, "attempt": run.num_attempts, "last": rows[-1]["step"] if rows else after,
        "series": found, "replaced": {VALIDATION: _timed(curve(judged, VALIDATION), judged, began)},
        "marks": _marks(run, began)})


def _timed(found: dict[str, list[Any]], rows: list[Any], began: Any) -> dict[str, list[Any]]:
    at = {row["step"]: round((row["at"] - began).total_seconds(), 1) for row in rows}
    return found | {"times": [at[step] for step in found["steps"]]}


def _marks(run: Run, began: Any) -> list[dict[str, Any]]:
    def time(moment: Any) -> float:
        return round((moment - began).total_seconds(), 1) if began else 0.0

    saves = [{"kind": "snapshot", "step": row.step, "time": time(row.created_at)} for row in queries.snapshots_of(run)]
    tries = [{"kind": "attempt", "step": row.resumed_step or 0, "time": time(row.started_at)}
             for row in queries.attempts_of(run) if row.number > 1]
    return saves + tries


@require_GET
def metrics_csv(request: HtmxRequest, run_id: str) -> HttpResponse:
    """Every figure of every update as a table."""
    run = queries.get_run(run_id)
    rows = queries.metrics_of(run)
    names = sorted({name for row in rows for name, value in row.values.items() if isinstance(value, int | float)})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["step", "attempt", "at", *names])
    writer.writerows([row.step, row.attempt, row.at.isoformat(), *(row.values.get(name) for name in names)]
                     for row in rows)
    return HttpResponse(text.getvalue(), content_type="text/csv",
                        headers={"Content-Disposition": f'attachment; filename="run-{run.pk[:12]}.csv"'})


@require_POST
def cancel(request: HtmxRequest, run_id: str) -> HttpResponse:
    """Ask the run to end."""
    run = cancel_run(queries.get_run(run_id), actor=actor_of(request))
    messages.success(request, "The run is being cancelled. What it saved so far is kept.", extra_tags="good")
    return go(request, reverse("runs:detail", args=[run.pk]))


# A new run -----------------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HtmxRequest) -> HttpResponse:
    """The guided form, or a pasted descriptor; both submit the same operation."""
    if request.method != "POST":
        return render(request, "runs/new.html", _form(request))
    try:
        found = submit_run(_submission(request), actor=actor_of(request))
    except OperationError as error:
        if request.htmx or error.status == 403:
            raise
        return render(request, "runs/new.html", _form(request) | {"error": error}, status=error.status)
    words = "The run is on its way." if found.is_new else "This submission had already started this run."
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("runs:detail", args=[found.run.pk]))


@require_POST
def check(request: HtmxRequest) -> HttpResponse:
    """The dry run of what the form holds now: the resolved plan, and every problem beside its field."""
    try:
        plan = check_run(_document(request), actor=actor_of(request))
    except OperationError as error:
        return render(request, "runs/_plan.html", {"error": error})
    beside, general = _placed(plan["problems"], request.POST.get("mode") == "descriptor")
    settings = settings_rows(plan["resolved"]["config"], plan["resolved"]["execution"], plan["stated"])
    return render(request, "runs/_plan.html", {
        "plan": plan, "beside": beside, "general": general, "settings": settings, "preview": _preview(plan),
        "num_wrong": sum(problem["code"] != "required" for problem in plan["problems"]), "submission_id": new_id()})


def _submission(request: HtmxRequest) -> Any:
    """The document, with the plan's own submission ID where it states none: a second click reaches the first run."""
    document, token = _document(request), request.POST.get("submissionId", "")
    return {**document, "submissionId": token} if token and isinstance(document, dict) and not document.get(
        "submissionId") else document


def _document(request: HtmxRequest) -> Any:
    if request.POST.get("mode") == "descriptor":
        return forms.read_document(request.POST.get("text", ""))
    return forms.document_of(request.POST.dict())


def _placed(problems: list[dict[str, str]], is_text: bool) -> tuple[list[tuple[str, list[Any]]], list[Any]]:
    """Problems by the form's field, every field listed so that old ones go away, and those of no field."""
    known = {} if is_text else {field.problem_path: field.key for field in forms.ALL}
    beside: dict[str, list[Any]] = {key: [] for key in known.values()}
    general: list[Any] = []
    for problem in problems:
        key = known.get(problem["path"])
        (beside[key] if key else general).append(problem)
    return list(beside.items()), general


def _preview(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The first rows of the training data, each message with whether its tokens are trained."""
    reference = plan["references"].get("dataset") or {}
    version = Version.objects.filter(pk=reference.get("versionId", "")).first()
    if version is None:
        return []
    turns = (plan["resolved"]["config"].get("loss") or {}).get("assistantTurns", "last")
    return [_marked(row, turns) for row in dataset_rows(version, limit=PREVIEW_ROWS)["rows"]]


def _marked(row: dict[str, Any], turns: str) -> dict[str, Any]:
    last = len(row["messages"]) - 1
    said = [message | {"is_trained": message["role"] == "assistant" and (turns == "all" or index == last)}
            for index, message in enumerate(row["messages"])]
    return row | {"messages": said}


def _form(request: HtmxRequest) -> dict[str, Any]:
    sent = request.POST if request.method == "POST" else request.GET
    mode = "descriptor" if sent.get("mode") == "descriptor" else "form"
    values = {field.path: sent.get(field.path, "") for field in forms.ALL}
    text = sent.get("text", "")
    earlier = request.GET.get("from", "")
    if earlier and request.method != "POST":
        document = queries.get_run(earlier).descriptor
        values |= forms.values_of(document)
        text = text or forms.write_document({key: value for key, value in document.items() if key != "submissionId"})
    workloads = list(list_workloads().filter(archived_at=None))
    if not values["workload"] and len(workloads) == 1:
        values["workload"] = workloads[0].name
    chosen = [state for state in list_base_models() if state.is_selected]
    if not values["baseModel"] and len(chosen) == 1:
        values["baseModel"] = chosen[0].repository
    return {"mode": mode, "text": text, "main": _filled(forms.MAIN, values),
            "groups": [(name, bool(how) or any(values[field.path] for field in fields), _filled(fields, values))
                       for name, how, fields in forms.GROUPS],
            "options": {"workload": [workload.name for workload in workloads],
                        "baseModel": [state.repository for state in chosen],
                        "data": [artifact.reference for artifact in list_datasets()[:500]]}}


def _filled(fields: tuple[forms.FormField, ...], values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"field": field, "value": values.get(field.path, "")} for field in fields]


# What other pages show of runs ---------------------------------------------------------------------------------------


def _item(run: Run) -> Item:
    parts = [run.workload.name, run.base_model]
    eta = queries.eta_seconds(run)
    progress = share(run)
    note = f"about {duration(eta)} left" if eta is not None else f"{progress:.0%}" if progress is not None else ""
    return Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase, detail=" · ".join(parts),
                share=progress if run.phase in PHASES.active else None, note=note, at=run.created_at)


@feed("now", 10)
def running(_: Any) -> Iterator[Item]:
    """Runs whose job holds a device, and those being recorded."""
    yield from (_item(run) for run in queries.open_runs() if run.phase not in BEFORE_A_JOB)


@feed("waiting", 10)
def waiting(_: Any) -> Iterator[Item]:
    """Runs that wait, and why."""
    for run in queries.open_runs().filter(phase__in=BEFORE_A_JOB):
        yield Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase,
                   detail=queries.wait_reason(run) or run.wait_reason or state_word(run.phase).text, at=run.created_at)


@feed("attention", 10)
def failed(_: Any) -> Iterator[Item]:
    """Runs that failed in the last days, with the reason and the next step."""
    since = timezone.now() - timedelta(days=3)
    for run in queries.list_runs(phase="failed").filter(ended_at__gte=since)[:5]:
        yield Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase, at=run.ended_at,
                   detail=f"{run.failure_reason} {run.failure_hint}".strip())


@feed("attention", 30)
def not_scored(_: Any) -> Iterator[Item]:
    """Models of lately completed runs that nothing has scored."""
    made = [(run, run.model) for run in queries.list_runs(phase="completed")[:10] if run.model is not None]
    scores = best_scores_of_models(model.pk for _, model in made)
    for run, model in made:
        if model.pk not in scores:
            yield Item("Model", model.reference, reverse("evaluations:model", args=[model.pk]), "UNSCORED",
                       detail="Nothing has scored it on its workload's evaluation data yet.", at=run.ended_at)


@feed("checklist", 40)
def start_one(_: Any) -> Iterator[Item]:
    """The last step of a new box."""
    yield Item("", "Start a run", reverse("runs:new"), action="New run", is_done=queries.all_runs().exists(),
               detail="The form fills in every setting and says what is wrong before anything starts.")


@feed("uses", 10)
def uses_of_dataset(version: Any) -> Iterator[Item]:
    """Runs that trained or validated on a dataset version."""
    for name, words in (("dataset", "Trained on it"), ("validationDataset", "Validated on it")):
        found = queries.all_runs().filter(**{f"references__{name}__versionId": version.pk}).order_by("-created_at")
        for run in found[:20]:
            yield Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase, detail=words,
                       at=run.created_at)


@finder
def runs_named(text: str) -> Iterator[Item]:
    """Runs by the beginning of their ID, or by part of their configuration's name or description."""
    found = queries.all_runs().order_by("-created_at")
    if looks_like_id(text.lower()):
        try:
            yield _item(queries.get_run(text))
        except NotFound:
            yield from map(_item, found.filter(pk__startswith=text.lower())[:10])
        return
    yield from map(_item, found.filter(config_name__icontains=text)[:10])
    yield from map(_item, found.filter(description__icontains=text).exclude(config_name__icontains=text)[:5])
