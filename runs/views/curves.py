"""The figures of a run's updates: as curves that grow, and as a table to take away."""

import csv
import io
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import whole
from runs import queries
from runs.event_file_download import event_file_download
from runs.models import Run
from runs.rollouts.queries import figures_of, trains_on_rewards
from runs.series import curve
from runs.views.rewards import curves

VALIDATION = "validation_loss"


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
    rows = _with_rollouts(run, rows, after=-1 if is_whole else after)
    names = {name for chart in curves(run) for name in str(chart["names"]).split(",")} - {VALIDATION}
    found = {name: timed(curve(rows, name), rows, began) for name in sorted(names)}
    return JsonResponse({
        "isWhole": is_whole, "attempt": run.num_attempts, "last": rows[-1]["step"] if rows else after,
        "series": found, "replaced": {VALIDATION: timed(curve(judged, VALIDATION), judged, began)},
        "marks": _marks(run, began)})


def _with_rollouts(run: Run, rows: list[Any], *, after: int) -> list[Any]:
    """The figures of updates with what their kept rollouts come to."""
    kept = figures_of(run, after=after) if trains_on_rewards(run) else {}
    return [row | {"values": row["values"] | kept.get(row["step"], {})} for row in rows] if kept else rows


def timed(found: dict[str, list[Any]], rows: list[Any], began: Any) -> dict[str, list[Any]]:
    """A curve with the seconds since `began` at each of its steps."""
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
    metrics = run.metrics.order_by("step").values("step", "attempt", "at", "values")
    rows = _with_rollouts(run, list(metrics), after=-1)
    names = sorted({name for row in rows for name, value in row["values"].items() if isinstance(value, int | float)})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["step", "attempt", "at", *names])
    writer.writerows([row["step"], row["attempt"], row["at"].isoformat(), *(row["values"].get(name) for name in names)]
                     for row in rows)
    return HttpResponse(text.getvalue(), content_type="text/csv",
                        headers={"Content-Disposition": f'attachment; filename="run-{run.pk[:12]}.csv"'})


@require_GET
def tensorboard(request: HtmxRequest, run_id: str) -> HttpResponseBase:
    """The same for TensorBoard."""
    return event_file_download(request, queries.get_run(run_id))
