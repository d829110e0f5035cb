"""Going on with a run's training: the form, with what would come of it beside."""

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_http_methods, require_POST

from optimize_site.kernel.htmx import HtmxRequest
from runs import queries
from runs.descriptor import SUPERVISED
from runs.forms import read_value
from runs.models import Run
from runs.operations import why_not_continue, wish_to_continue
from runs.operations.branching import Wish
from runs.operations.sweeping import overrides_of
from runs.views.branching import OFFERED, count_in, plan_part, start_or_form
from runs.views.naming import title

FIELDS = ("snapshot", "steps", "learning_rate", "validation_frequency", "config_name", "description")


@require_http_methods(["GET", "HEAD", "POST"])
def go_on(request: HtmxRequest, run_id: str) -> HttpResponse:
    """The form; sent, it goes on with the run's training in a branch."""
    return start_or_form(request, queries.get_run(run_id), "runs/continue.html", wish_of=_wish, form_of=_form)


@require_POST
def check(request: HtmxRequest, run_id: str) -> HttpResponse:
    """What would come of the form."""
    return plan_part(request, queries.get_run(run_id), wish_of=_wish, start="runs:continue",
                     label="Continue training")


def _form(request: HtmxRequest, run: Run) -> dict[str, Any]:
    sent = request.POST if request.method == "POST" else request.GET
    values = {name: sent.get(name, "") for name in FIELDS}
    if request.method != "POST":
        values["steps"] = values["steps"] or str(run.total_steps or "")
    loop = run.config[_loop(run)]
    return {"run": run, "title": title(run), "values": values, "why_not": why_not_continue(run),
            "snapshots": queries.newest_restorable(run)[:OFFERED], "learning_rate": loop["optimizer"]["learningRate"],
            "validation_frequency": loop["training"]["validationFrequencySteps"] if _validates(run) else None}


def _wish(request: HtmxRequest, run: Run) -> Wish:
    sent = request.POST
    named = sent.get("snapshot", "")
    return wish_to_continue(
        run, steps=count_in(request, "steps") or 0, snapshot=queries.get_snapshot(named, run=run) if named else None,
        overrides=overrides_of(_changes(request, run)), description=sent.get("description", "").strip(),
        config_name=sent.get("config_name", "").strip(), submission_id=sent.get("submissionId", ""))


def _changes(request: HtmxRequest, run: Run) -> dict[str, Any]:
    """The fields that the form changes, by path; what is no number is refused as the descriptor's field."""
    paths = {"learning_rate": ("optimizer.learningRate", "number")}
    if _validates(run):
        paths["validation_frequency"] = ("training.validationFrequencySteps", "whole")
    sent = {name: request.POST.get(name, "").strip() for name in paths}
    return {f"{_loop(run)}.{path}": read_value(sent[name], kind) for name, (path, kind) in paths.items() if sent[name]}


def _loop(run: Run) -> str:
    return "hyperparams" if run.method in SUPERVISED else "rlHyperparams"


def _validates(run: Run) -> bool:
    return run.method in SUPERVISED and bool(run.references.get("validationDataset"))
