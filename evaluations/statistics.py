"""Intervals around mean scores. Pure and repeatable: the same scores give the same interval.

Up to BOOTSTRAP_ROWS rows an interval is a seeded bootstrap of the mean; beyond, the normal approximation, which agrees
with it there. Scores that are all alike have no spread to resample: they get Wilson's interval for a proportion.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054
RESAMPLES = 2000
BOOTSTRAP_ROWS = 1000
SEED = 0

Interval = tuple[float, float]


@dataclass(frozen=True)
class Paired:
    """The mean of `b - a` over the same rows, its 95 % interval, and how many rows went each way."""

    num_rows: int
    difference: float
    interval: Interval
    num_better: int
    num_worse: int

    @property
    def is_decided(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.interval[0] > 0 or self.interval[1] < 0


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. Raises ValueError for no values."""
    if not values:
        raise ValueError("the mean of no values")
    return math.fsum(values) / len(values)


def mean_interval(scores: Sequence[float]) -> Interval | None:
    """A 95 % interval around the mean of scores in 0..1; None without scores."""
    if not scores:
        return None
    if min(scores) == max(scores):
        return wilson(scores[0], len(scores))
    low, high = _interval(scores)
    return max(0.0, low), min(1.0, high)


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Paired | None:
    """How much better `b` is than `a` on the same rows; None without rows."""
    differences = [after - before for before, after in zip(a, b, strict=True)]
    if not differences:
        return None
    return Paired(len(differences), mean(differences), _interval(differences),
                  sum(1 for value in differences if value > 0), sum(1 for value in differences if value < 0))


def wilson(share: float, count: int) -> Interval:
    """Wilson's 95 % score interval for a share of `count` trials."""
    square = Z95**2
    centre = (share + square / (2 * count)) / (1 + square / count)
    reach = Z95 / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return 0.0 if share == 0 else max(0.0, centre - reach), 1.0 if share == 1 else min(1.0, centre + reach)


def normal(values: Sequence[float]) -> Interval:
    """The 95 % interval of the mean by the normal approximation."""
    middle = mean(values)
    if len(values) < 2:
        return middle, middle
    variance = math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)
    reach = Z95 * math.sqrt(variance / len(values))
    return middle - reach, middle + reach


def bootstrap(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = SEED) -> Interval:
    """The 2.5th and 97.5th percentile of the means of seeded resamples."""
    draw = random.Random(seed)  # noqa: S311 - resampling, not a secret
    count = len(values)
    means = sorted(math.fsum(draw.choices(values, k=count)) / count for _ in range(resamples))
    return means[int(0.025 * (resamples - 1))], means[math.ceil(0.975 * (resamples - 1))]


def _interval(values: Sequence[float]) -> Interval:
    return bootstrap(values) if len(values) <= BOOTSTRAP_ROWS else normal(values)
