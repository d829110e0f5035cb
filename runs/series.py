"""Curves for the screen: fewer points than updates, without losing a peak or a gap."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

LIMIT = 2000
Point = tuple[float, float | None]


def downsample(points: Sequence[Point], limit: int = LIMIT) -> list[Point]:
    """At most `limit` of the points, in order: the first, the last, and the lowest and highest of each stretch between.

    A value that is missing or not finite counts as the most extreme of its stretch, so that a gap stays visible.
    Raises ValueError for a limit under 4.
    """
    if limit < 4:
        raise ValueError(f"limit is {limit}; a curve needs at least 4 points")
    if len(points) <= limit:
        return list(points)
    inner = points[1:-1]
    buckets = (limit - 2) // 2
    edges = [round(index * len(inner) / buckets) for index in range(buckets + 1)]
    kept = [point for start, end in pairwise(edges) for point in _extremes(inner[start:end])]
    return [points[0], *kept, points[-1]]


def _extremes(stretch: Sequence[Point]) -> list[Point]:
    if not stretch:
        return []
    low = min(range(len(stretch)), key=lambda index: _height(stretch[index], -math.inf))
    high = max(range(len(stretch)), key=lambda index: _height(stretch[index], math.inf))
    return [stretch[index] for index in sorted({low, high})]


def _height(point: Point, missing: float) -> float:
    value = point[1]
    return value if value is not None and math.isfinite(value) else missing


def curve(rows: Iterable[Mapping[str, Any]], name: str, limit: int = LIMIT) -> dict[str, list[Any]]:
    """The curve of one figure over rows of `{"step", "values": {name: number}}`: `{"steps", "values"}`.

    Rows without the figure are left out; a value that is not finite is a gap.
    """
    points = [(row["step"], _finite(row["values"][name])) for row in rows if row["values"].get(name) is not None]
    shown = downsample(points, limit)
    return {"steps": [step for step, _ in shown], "values": [value for _, value in shown]}


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
