"""Several runs beside each other: a figure of theirs against the first one's, spikes, what their plans differ in."""

from collections.abc import Sequence
from typing import Any

from runs.compared_figures import NORM, Figure, figure_of, kind_of
from runs.differences import side_by_side
from runs.errors import PlansDiffer, RunsNotComparable
from runs.loss_windows import Figures, Terms, first_parting, is_number, spikes_of, windows_of
from runs.models import Run

MOST_RUNS = 16


def compare_runs(runs: Sequence[Run], terms: Terms) -> dict[str, Any]:
    """The runs' curves of one figure against the first one's. Each run counts its own updates, a branch from its start.

    Raises RunsNotComparable for fewer than two runs or too many, methods whose figures mean different things, a window
    of no updates, and for different plans unless the terms allow them; InvalidInput for a figure that they do not
    report.
    """
    _refuse(runs, terms)
    kind = kind_of(runs)
    figure = figure_of(kind, terms.figure)
    _refuse_other_plans(runs, terms)
    figures = [_figures(run, figure) for run in runs]
    base, *others = figures
    return {
        "figure": figure.name, "figures": [other.name for other in kind.figures], "window": terms.window,
        "margin": terms.margin, "spikeFactor": terms.spike_factor,
        "samePlan": len({_plan(run) for run in runs}) == 1,
        "runs": [_document(run, *found, terms) for run, found in zip(runs, figures, strict=True)],
        "pairs": [_pair(runs[0], run, base[0], values, terms)
                  for run, (values, _) in zip(runs[1:], others, strict=True)],
        "differences": side_by_side([settings_of(run) for run in runs])}


def settings_of(run: Run) -> dict[str, Any]:
    """What shapes the run's model: its base model and its configuration, the dataset by its reference."""
    dataset = (run.references.get("dataset") or {}).get("reference")
    return {"baseModel": run.base_model, **run.config, "dataset": dataset}


def _refuse(runs: Sequence[Run], terms: Terms) -> None:
    if not 2 <= len({run.pk for run in runs}) == len(runs) <= MOST_RUNS:
        raise RunsNotComparable(f"{len(runs)} run{'' if len(runs) == 1 else 's'} named; a comparison takes 2 to "
                                f"{MOST_RUNS} different ones.")
    if terms.window < 1 or terms.margin < 0 or terms.spike_factor <= 1:
        raise RunsNotComparable(f"window is {terms.window}, margin {terms.margin}, spike factor {terms.spike_factor}; "
                                "a window has at least 1 update, a margin is not negative, a factor is over 1.")


def _refuse_other_plans(runs: Sequence[Run], terms: Terms) -> None:
    apart = next((run for run in runs if _plan(run) != _plan(runs[0])), None)
    if apart is not None and not terms.across_plans:
        raise PlansDiffer(f"The runs {runs[0].pk[:12]} and {apart.pk[:12]} have different plans: "
                          f"{_first_difference(runs[0], apart)}.",
                          hint="Compare them across plans with --across-plans, or choose runs of one recipe.")


def _plan(run: Run) -> tuple[str, str]:
    return run.config_hash, run.base_model


def _first_difference(one: Run, other: Run) -> str:
    found = side_by_side([settings_of(one), settings_of(other)])
    if not found:
        return f"configuration {one.config_hash[:12]} and {other.config_hash[:12]}"
    (left, right), more = found[0]["values"], len(found) - 1
    rest = f", and {more} more settings differ" if more > 1 else ", and one more setting differs" if more else ""
    return f"{found[0]['path']} is {left} and {right}{rest}"


def _figures(run: Run, figure: Figure) -> tuple[Figures, Figures]:
    """The figure and the gradient norms of a run, by update."""
    rows = list(run.metrics.order_by("step").values_list("step", f"values__{figure.stored}", f"values__{NORM}"))
    return {step: value for step, value, _ in rows}, {step: norm for step, _, norm in rows}


def _document(run: Run, values: Figures, norms: Figures, terms: Terms) -> dict[str, Any]:
    last = next((value for value in reversed(list(values.values())) if is_number(value)), None)
    return {"runId": run.pk, "configName": run.config_name, "phase": run.phase, "method": run.method,
            "configHash": run.config_hash, "baseModel": run.base_model, "observedStep": run.observed_step,
            "totalSteps": run.total_steps, "last": last, "spikes": spikes_of(norms, terms.spike_factor)}


def _pair(base: Run, other: Run, ours: Figures, theirs: Figures, terms: Terms) -> dict[str, Any]:
    windows = windows_of(ours, theirs, terms.window)
    updates = sum(window["updates"] for window in windows)
    whole = sum(window["meanDifference"] * window["updates"] for window in windows) / updates if updates else None
    return {"runId": other.pk, "against": base.pk, "updates": updates, "meanDifference": whole, "windows": windows,
            "firstParting": first_parting(windows, terms.margin)}
