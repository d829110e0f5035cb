"""How a figure of two runs lies to each other, a window of updates at a time, and where a gradient spikes. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

Figures = Mapping[int, float | None]
"""A figure by update; what is missing or not finite is left out of every mean."""


@dataclass(frozen=True)
class Terms:
    """How runs are compared: updates a window, the mean difference at which two part, what a spike is, and by which
    figure; the main one of their method where none is named."""

    window: int = 20
    margin: float = 0.05
    spike_factor: float = 3.0
    across_plans: bool = False
    figure: str = ""


def windows_of(base: Figures, other: Figures, size: int) -> list[dict[str, Any]]:
    """The mean of `other - base` for each window of `size` updates in which both reported the figure, in order."""
    parts: dict[int, list[float]] = {}
    for step in sorted(set(base) & set(other)):
        one, two = base[step], other[step]
        if is_number(one) and is_number(two):
            parts.setdefault((step - 1) // size, []).append(float(two) - float(one))  # type: ignore[arg-type]
    return [{"first": number * size + 1, "last": (number + 1) * size, "updates": len(found),
             "meanDifference": fmean(found)} for number, found in parts.items()]


def first_parting(windows: Sequence[Mapping[str, Any]], margin: float) -> Mapping[str, Any] | None:
    """The first window whose mean difference is larger than `margin`, up or down."""
    return next((window for window in windows if abs(window["meanDifference"]) > margin), None)


def spikes_of(norms: Figures, factor: float) -> list[dict[str, Any]]:
    """The updates whose gradient norm is over `factor` times the run's median, and those where it is not finite."""
    finite = [value for value in norms.values() if is_number(value)]
    usual = median(finite) if finite else 0.0  # type: ignore[type-var]
    return [{"step": step, "gradNorm": value if is_number(value) else None, "median": usual}
            for step, value in sorted(norms.items()) if value is not None and _is_spike(value, usual, factor)]


def _is_spike(value: float, usual: float | None, factor: float) -> bool:
    return not is_number(value) or value > factor * (usual or 0.0) > 0


def is_number(value: Any) -> bool:
    """Whether a figure is there and finite."""
    return isinstance(value, int | float) and math.isfinite(value)
