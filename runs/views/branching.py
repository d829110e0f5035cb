"""Branching from a save, one run or a whole grid: the forms, with what would come of them beside."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import InvalidInput, OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.listing import whole
from optimize_site.kernel.refusals import go
from runs import queries
from runs.differences import differences
from runs.evidence import estimates_for
from runs.models import Run, Snapshot
from runs.operations import branch_run, plan_branch, sweep_runs
from runs.operations.branching import AUTO, Planned, Wish
from runs.operations.sweeping import MOST_BRANCHES, Sweep
from runs.pages import estimate_rows
from runs.snapshots import TRAINING_STATE, WEIGHTS, kinds_of
from runs.views.naming import title

OFFERED = 200
RESTORES = (
    (AUTO, "Automatic", "Keeps the training state wherever that is possible, and says why where it is not."),
    (TRAINING_STATE, "Training state", "Optimizer, random generators and place in the data go on; the schedule spans "
                                       "the branch's own updates. Only the learning rate and the validation frequency "
                                       "may change."),
    (WEIGHTS, "Weights", "The adapter alone. Optimizer, schedule and data begin anew; any setting may change."))
FIELDS = ("snapshot", "steps", "epochs", "max_steps", "restore", "overrides", "grid", "config_name", "description")
WishOf = Callable[[HtmxRequest, Run], Wish]
FormOf = Callable[[HtmxRequest, Run], dict[str, Any]]


@require_http_methods(["GET", "HEAD", "POST"])
def branch(request: HtmxRequest, run_id: str) -> HttpResponse:
    """The form of a branch; sent, it starts one."""
    return start_or_form(request, queries.get_run(run_id), "runs/branch.html", wish_of=_wish, form_of=_form)


def start_or_form(request: HtmxRequest, run: Run, template: str, *, wish_of: WishOf, form_of: FormOf) -> HttpResponse:
    """The form; sent, it starts the branch that it asks for."""
    if request.method != "POST":
        return render(request, template, form_of(request, run))
    try:
        found = branch_run(wish_of(request, run), actor=actor_of(request))
    except OperationError as error:
        return _refused(request, template, error, lambda: form_of(request, run))
    words = "The branch is on its way." if found.is_new else "This submission had already started this branch."
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("runs:detail", args=[found.run.pk]))


@require_POST
def check_branch(request: HtmxRequest, run_id: str) -> HttpResponse:
    """What the branch in the form would be: how it is restored and why, what it changes, what is wrong with it."""
    return plan_part(request, queries.get_run(run_id), wish_of=_wish, start="runs:branch", label="Start branch")


def plan_part(request: HtmxRequest, run: Run, *, wish_of: WishOf, start: str, label: str) -> HttpResponse:
    """What the branch that a form asks for would be, with the button that has `start` start it."""
    try:
        planned = plan_branch(wish_of(request, run), actor=actor_of(request))
    except OperationError as error:
        return render(request, "runs/_branch_plan.html", {"error": error, "run": run})
    return render(request, "runs/_branch_plan.html", _plan(run, planned) | {
        "token": new_id()[:32], "start_url": reverse(start, args=[run.pk]), "start_label": label})


def _plan(run: Run, planned: Planned) -> dict[str, Any]:
    estimates = [] if planned.problems else estimate_rows(estimates_for(planned.resolved, planned.facts))
    return {"run": run, "planned": planned, "warnings": planned.resolved.warnings, "estimates": estimates,
            "changes": [] if planned.problems else differences(run.config, planned.resolved.config)}


@require_http_methods(["GET", "HEAD", "POST"])
def sweep(request: HtmxRequest, run_id: str) -> HttpResponse:
    """The form of a sweep; sent, it starts a branch for each point."""
    run = queries.get_run(run_id)
    if request.method != "POST":
        return render(request, "runs/sweep.html", _form(request, run))
    try:
        found = _sweep(request, run, dry_run=False)
    except OperationError as error:
        return _refused(request, "runs/sweep.html", error, lambda: _form(request, run))
    started = sum(point.is_new for point in found.points)
    messages.success(request, f"{started} branch{'' if started == 1 else 'es'} started.", extra_tags="good")
    return go(request, f"{reverse('runs:detail', args=[run.pk])}?tab=branches")


@require_POST
def check_sweep(request: HtmxRequest, run_id: str) -> HttpResponse:
    """The points of the grid in the form, each checked."""
    run = queries.get_run(run_id)
    if not request.POST.get("grid", "").strip():
        return render(request, "runs/_sweep_plan.html", {"run": run})
    try:
        found = _sweep(request, run, dry_run=True)
    except OperationError as error:
        return render(request, "runs/_sweep_plan.html", {"error": error, "run": run})
    return render(request, "runs/_sweep_plan.html", {"run": run, "sweep": found})


def _sweep(request: HtmxRequest, run: Run, *, dry_run: bool) -> Sweep:
    sent = request.POST
    return sweep_runs(_snapshot(request, run), steps=whole(sent.get("steps")), grid=_document(sent.get("grid", ""),
                      "grid"), restore=sent.get("restore", AUTO), description=sent.get("description", ""),
                      submission_id=sent.get("submissionId", ""), dry_run=dry_run, actor=actor_of(request))


def _refused(request: HtmxRequest, template: str, error: OperationError,
             form: Callable[[], dict[str, Any]]) -> HttpResponse:
    if request.htmx or error.status == 403:
        raise error
    return render(request, template, form() | {"error": error}, status=error.status)


def _form(request: HtmxRequest, run: Run) -> dict[str, Any]:
    sent = request.POST if request.method == "POST" else request.GET
    snapshots = [row for row in queries.snapshots_of(run)[:OFFERED] if WEIGHTS in kinds_of(row)]
    values = {name: sent.get(name, "") for name in FIELDS}
    values["restore"] = values["restore"] or AUTO
    if request.method != "POST":
        values["steps"] = values["steps"] or str(run.total_steps or "")
    if not values["snapshot"] and snapshots:
        values["snapshot"] = snapshots[0].pk
    return {"run": run, "title": title(run), "values": values, "restores": RESTORES, "most_branches": MOST_BRANCHES,
            "snapshots": [{"row": row, "has_state": TRAINING_STATE in kinds_of(row)} for row in snapshots]}


def _wish(request: HtmxRequest, run: Run) -> Wish:
    sent = request.POST
    return Wish(_snapshot(request, run), count_in(request, "steps"), sent.get("restore", AUTO),
                _document(sent.get("overrides", ""), "overrides"), sent.get("description", "").strip(),
                sent.get("config_name", "").strip(), sent.get("submissionId", ""), count_in(request, "epochs"),
                count_in(request, "max_steps"))


def count_in(request: HtmxRequest, name: str) -> int | None:
    """A whole number of the form, None where its input is empty; nonsense is 0, which is refused by name."""
    text = request.POST.get(name, "").strip()
    return whole(text) if text else None


def _snapshot(request: HtmxRequest, run: Run) -> Snapshot:
    named = request.POST.get("snapshot", "")
    if not named:
        raise InvalidInput("No snapshot is chosen.", hint="Choose the save to start from.", code="snapshot_missing")
    return queries.get_snapshot(named, run=run)


def _document(text: str, name: str) -> dict[str, Any]:
    """What a field holds as a document; an empty one is an empty document. Raises InvalidInput."""
    found = parse_document(text, name=f"The {name}") if text.strip() else {}
    if not isinstance(found, dict):
        raise InvalidInput(f"The {name} are no object of fields.", code="malformed_document",
                           hint='For instance {"hyperparams": {"optimizer": {"learningRate": 0.00005}}}.')
    return found
