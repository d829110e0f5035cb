"""How the figures of one update's completions are spread: histogram, percentiles, and whether they fall in two. Pure.

The bins of a histogram end at a power of two, so that those of different updates can be laid over each other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

BINS = 32
PERCENTILES = (5, 25, 50, 75, 95)
SMALLEST_GROUP, LEAST_EXPLAINED, LEAST_VALUES = 0.15, 0.8, 8
VALLEY_SHARE = 0.1


@dataclass(frozen=True)
class Groups:
    """Values that fall in two: the mean of each part, and the share of the values that the lower one holds."""

    low: float
    high: float
    low_share: float


def distribution(values: Sequence[float]) -> dict[str, Any] | None:
    """`{"edges", "counts", "mean", "least", "most", "p5" … "p95", "twoGroups"}` of finite values; None without any."""
    if not values:
        return None
    ordered = sorted(values)
    edges = edges_of(ordered[0], ordered[-1])
    groups = two_groups(ordered)
    percentiles = {f"p{share}": percentile(ordered, share) for share in PERCENTILES}
    return {"edges": edges, "counts": counted(ordered, edges), "mean": math.fsum(ordered) / len(ordered),
            "least": ordered[0], "most": ordered[-1]} | percentiles | {
            "twoGroups": None if groups is None else {"low": groups.low, "high": groups.high,
                                                      "lowShare": groups.low_share}}


def edges_of(least: float, most: float) -> list[float]:
    """The edges of the bins for values from `least` to `most`: from zero to a power of two, or as far to both sides."""
    reach = max(abs(least), abs(most))
    top = 2.0 ** math.ceil(math.log2(reach)) if reach else 1.0
    start = -top if least < 0 else 0.0
    return [start + (top - start) * index / BINS for index in range(BINS + 1)]


def counted(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    """How many of the values each bin holds; a value on an edge is the upper bin's, on the last edge the last one's."""
    counts = [0] * (len(edges) - 1)
    width = (edges[-1] - edges[0]) / len(counts)
    for value in values:
        counts[min(len(counts) - 1, max(0, math.floor((value - edges[0]) / width)))] += 1
    return counts


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` percent of sorted values lie, between two of them in proportion."""
    place = (len(ordered) - 1) * share / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def two_groups(ordered: Sequence[float]) -> Groups | None:
    """The two groups that sorted values fall into, where they do.

    The split is the one that leaves the least variance inside the groups. It counts where it explains four fifths of
    the variance, neither group is small, and the middle between the two means is nearly empty.
    """
    if len(ordered) < LEAST_VALUES or ordered[0] == ordered[-1]:
        return None
    at, explained = _best_split(ordered)
    low_share = at / len(ordered)
    low, high = _mean(ordered[:at]), _mean(ordered[at:])
    is_apart = explained >= LEAST_EXPLAINED and SMALLEST_GROUP <= low_share <= 1 - SMALLEST_GROUP
    return Groups(low, high, low_share) if is_apart and _is_valley(ordered, low, high) else None


def _best_split(ordered: Sequence[float]) -> tuple[int, float]:
    """Where the values are split, and the share of their variance that lies between the two parts."""
    count, mean = len(ordered), _mean(ordered)
    whole = math.fsum((value - mean) ** 2 for value in ordered)
    best, explained, running = 1, 0.0, 0.0
    for at in range(1, count):
        running += ordered[at - 1] - mean
        between = running * running * count / (at * (count - at))
        if ordered[at] > ordered[at - 1] and between > explained:
            best, explained = at, between
    return best, explained / whole if whole else 0.0


def _is_valley(ordered: Sequence[float], low: float, high: float) -> bool:
    third = (high - low) / 3
    middle = sum(low + third < value < high - third for value in ordered)
    return middle <= VALLEY_SHARE * len(ordered)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def laid_over(histogram: Mapping[str, Any], edges: Sequence[float]) -> list[int]:
    """A histogram's counts in wider bins, each counted where the middle of its own bin lies; the last one's where the
    largest value lies, since a full score is what stands there."""
    middles = [(low + high) / 2 for low, high in pairwise(histogram["edges"])]
    middles[-1] = histogram["most"]
    counts = [0] * (len(edges) - 1)
    width = (edges[-1] - edges[0]) / len(counts)
    for middle, count in zip(middles, histogram["counts"], strict=True):
        counts[min(len(counts) - 1, max(0, math.floor((middle - edges[0]) / width)))] += count
    return counts
