"""Where the parts of the lengths' picture stand: one bar a bin, all of one width, and the limits as lines. Pure."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, FLOOR = 720.0, 150.0, 122.0
TOP, GAP = 14.0, 1.5
TICKS = 6


@dataclass(frozen=True)
class Bar:
    """A bin of lengths and where it is drawn."""

    x: float
    y: float
    width: float
    height: float
    words: str


@dataclass(frozen=True)
class Mark:
    """A limit, or a number along the axis, and where it is drawn."""

    x: float
    words: str
    is_at_end: bool = False


@dataclass(frozen=True)
class LengthPlot:
    """How many rows are how long. `words` says it to who cannot see it."""

    bars: tuple[Bar, ...]
    limits: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    words: str
    width: float = WIDTH
    height: float = HEIGHT
    floor: float = FLOOR
    top: float = TOP


def plot_lengths(report: Mapping[str, Any], unit: str) -> LengthPlot | None:
    """The picture of a report's histogram; None where it has none."""
    histogram = report.get("histogram") or {}
    edges, counts = list(histogram.get("edges") or []), list(histogram.get("counts") or [])
    if not counts or len(edges) != len(counts) + 1:
        return None
    bars = tuple(_bar(index, edges, counts, unit) for index in range(len(counts)))
    limits = tuple(Mark(round(_place(limit["limit"], edges), 1), f"{limit['limit']:,}",
                        _place(limit["limit"], edges) > 0.9 * WIDTH)
                   for limit in report["limits"] if edges[0] < limit["limit"] < edges[-1])
    median, p90, longest = (report["lengths"][name] for name in ("median", "p90", "longest"))
    words = (f"{report['rows']:,} {unit} by their tokens: half of them under {median:,}, nine in ten under {p90:,}, "
             f"the longest {longest:,}.")
    return LengthPlot(bars, limits, _ticks(edges), words)


def _bar(index: int, edges: Sequence[float], counts: Sequence[int], unit: str) -> Bar:
    step, tallest = WIDTH / len(counts), max(counts) or 1
    height = (FLOOR - TOP) * counts[index] / tallest
    # A bin that holds few beside one that holds thousands is still there to be seen.
    height = max(height, 1.5) if counts[index] else 0.0
    words = f"{edges[index]:,.0f} to {edges[index + 1]:,.0f} tokens: {counts[index]:,} {unit}"
    x, y, width = index * step, FLOOR - height, max(0.5, step - GAP)
    return Bar(round(x, 2), round(y, 2), round(width, 2), round(height, 2), words)


def _place(tokens: float, edges: Sequence[float]) -> float:
    """Where a number of tokens stands along the picture."""
    index = min(max(bisect_right(edges, tokens) - 1, 0), len(edges) - 2)
    low, high = edges[index], edges[index + 1]
    within = (tokens - low) / (high - low) if high > low else 0.0
    return (index + within) * WIDTH / (len(edges) - 1)


def _ticks(edges: Sequence[float]) -> tuple[Mark, ...]:
    step = max(1, (len(edges) - 1) // TICKS)
    places = [*range(0, len(edges) - step // 2 - 1, step), len(edges) - 1]
    return tuple(Mark(round(index * WIDTH / (len(edges) - 1), 1), f"{edges[index]:,.0f}", index == len(edges) - 1)
                 for index in places)
