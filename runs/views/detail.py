"""One run: its phases, progress and curves, one tab of the rest, and its cancelling."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from optimize_site.kernel import clock
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.refusals import go
from optimize_site.kernel.scores import best_scores_of_models
from optimize_site.kernel.services import tail
from optimize_site.kernel.words import event_words
from optimize_site.kernel.work import attempt_folder
from runs import queries, runtime_text
from runs.grafana import shown_link
from runs.models import Run
from runs.operations import cancel_run
from runs.outlook import outlook_of
from runs.pages import memory_rows, settings_rows, strip
from runs.phases import PHASES
from runs.smoke import REPRODUCING
from runs.text import preference_loss
from runs.views.lifecycle import standing
from runs.views.lineage import branches_tab
from runs.views.naming import share, title
from runs.views.rewards import TAB as REWARDS_TAB
from runs.views.rewards import curves, reward_note, rewards_tab
from runs.views.smoke import TAB as SMOKE_TAB
from runs.views.smoke import smoke_note, smoke_tab
from runs.views.snapshots import snapshots_tab

TABS = (("snapshots", "Snapshots"), ("branches", "Branches"), ("data", "Data fit"), ("settings", "Settings"),
        ("checks", "Checks"), ("logs", "Logs"), ("events", "Events"))


@require_GET
def detail(request: HtmxRequest, run_id: str) -> HttpResponse:
    """One run: its phases, progress and curves, and one tab of the rest."""
    run = queries.get_run(run_id)
    tab = request.GET.get("tab", "")
    context = _live(run) | standing(run) | {"curves": curves(run), "seen": request.GET.get("seen", "")}
    if request.htmx and not tab:
        # The page is whole once more after the end; then its polling stops (HTMX's 286).
        return render(request, "runs/detail.html#live", context, status=200 if context["is_open"] else 286)
    tabs = (*((SMOKE_TAB,) if run.smoke is not None else ()), *((REWARDS_TAB,) if context["reward"] else ()), *TABS)
    tab = tab if tab in dict(tabs) else tabs[0][0]
    context |= {"tabs": tabs, "tab": tab, "tab_template": f"runs/tab_{tab}.html"} | TAB_CONTEXTS[tab](request, run)
    context["grafana"] = shown_link(run)
    return render(request, "runs/detail.html#tab" if request.htmx else "runs/detail.html", context)


def _live(run: Run) -> dict[str, Any]:
    now = clock.now()
    is_open = run.phase in PHASES.open
    loss = queries.loss_summary(run)
    cost = queries.cost_of(run)
    ahead = outlook_of(run)
    run.wait_reason = ahead.wait_reason
    run.device_seconds = cost["deviceSeconds"]
    return {
        "run": run, "title": title(run), "is_open": is_open, "dataset": run.references.get("dataset") or {},
        "strip": strip(run.phase, run.phase_millis, run.phase_since, now), "share": share(run),
        "bar_tone": {"COMPLETED": "good", "FAILED": "bad"}.get(run.phase, "" if is_open else "soft"),
        "eta_seconds": ahead.eta_seconds, "loss": loss or {}, "throughput": queries.mean_throughput(run),
        "validation": run.summary.get("validation"), "has_validation": bool(run.references.get("validationDataset")),
        "preference": _preference(run), "reward": reward_note(run),
        "repeat": max(0, run.observed_step - run.saved_step) if run.saved_step is not None else None,
        "smoke": smoke_note(run), "stage_text": _stage_text(run), "cost_text": _cost_text(cost), "result": _result(run),
        "cancel_why_not": "Its work is done; it ends by itself in a moment."
        if run.phase in {"RECORDING", "CLEANING_UP"} else "Cancel was asked for." if run.cancel_requested_at else "",
    }


def _preference(run: Run) -> dict[str, Any] | None:
    """The figures of a preference run once it has some, with the loss in words."""
    found = queries.preference_summary(run)
    if found is None or found["step"] is None:
        return None
    return found | {"loss": preference_loss(found["loss"]) if found["loss"] else ""}


def _stage_text(run: Run) -> str:
    stage = run.stage
    is_shown = run.phase != "TRAINING" or stage.get("name") == REPRODUCING
    if run.phase not in PHASES.active or not stage.get("name") or not is_shown:
        return ""
    words = str(stage["name"]).replace("_", " ").capitalize()
    return f"{words}: {stage.get('done') or 0:,} of {stage['total']:,}" if stage.get("total") else words


def _cost_text(cost: dict[str, Any]) -> str:
    parts = [f"cost {cost['amount']:,.2f}"] if cost["ratePerDeviceHour"] else []
    return ", ".join([*parts, "so far"] if cost["isEstimate"] else parts)


def _result(run: Run) -> dict[str, Any] | None:
    return best_scores_of_models([run.model_id]).get(run.model_id) if run.model_id else None


def _data_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    fit = run.data_fit or {}
    validation = fit.get("validation") or {}
    total = fit.get("totalTokens")
    return {"fit": fit, "fit_share": fit["trainedTokens"] / total if total else None, "fit_rows": _fit_rows(fit),
            "validation_fit_rows": _fit_rows(validation),
            "memory_rows": memory_rows(run.predicted_memory, queries.measured_memory(run)),
            "memory_note": (run.predicted_memory or {}).get("note", "")}


def _fit_rows(fit: dict[str, Any]) -> list[tuple[str, str]]:
    words = {"rows": "Rows", "tooLong": "Too long, left out", "trimmed": "Trimmed",
             "turnsRemoved": "Turns removed", "longest": "Longest row, tokens",
             "totalTokens": "Tokens", "trainedTokens": "Trained tokens"}
    rows = [(label, f"{fit[key]:,}") for key, label in words.items() if isinstance(fit.get(key), int)]
    if fit.get("paddingShare") is not None:
        rows.append(("Padding", f"{fit['paddingShare'] * 100:.1f}%"))
    return rows


def _settings_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    return {"settings": settings_rows(run.config, run.execution, run.stated), "runtime": _runtime(run)}


def _runtime(run: Run) -> dict[str, Any] | None:
    """What its newest attempt really ran with, in words."""
    record = run.engine_runtime
    if record is None:
        return None
    return {"sections": runtime_text.sections(record), "changed": runtime_text.changed_rows(record),
            "memory": runtime_text.memory_rows(record)}


def _logs_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    return {"attempts": [{"row": attempt, "stderr": tail(attempt_folder(attempt.pk) / "stderr.log"),
                          "stdout": tail(attempt_folder(attempt.pk) / "stdout.log")}
                         for attempt in queries.attempts_of(run).order_by("-number")[:3]]}


def _events_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    found = list(queries.events_of(run).order_by("-id")[:200])
    return {"events": [{"at": event.at, "words": event_words(event.type), "actor": event.actor, "reason": event.reason}
                       for event in found]}


def _checks_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    return {"checks": run.checks}


TAB_CONTEXTS = {"smoke": smoke_tab, "rewards": rewards_tab, "snapshots": snapshots_tab, "branches": branches_tab,
                "data": _data_tab, "settings": _settings_tab, "checks": _checks_tab, "logs": _logs_tab,
                "events": _events_tab}


@require_POST
def cancel(request: HtmxRequest, run_id: str) -> HttpResponse:
    """Ask the run to end."""
    run = cancel_run(queries.get_run(run_id), actor=actor_of(request))
    messages.success(request, "The run is being cancelled. What it saved so far is kept.", extra_tags="good")
    return go(request, reverse("runs:detail", args=[run.pk]))
