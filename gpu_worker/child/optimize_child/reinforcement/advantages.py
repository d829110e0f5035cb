"""How much better than its group each completion scored: the advantages of GRPO (https://arxiv.org/abs/2402.03300).

Pure. The equation of section 4.1.2, as TRL has it: score minus the group's mean, over the group's standard deviation
(a sample's: divided by one less than the count) plus 1e-4.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

STEADY = 1e-4


class GroupAdvantages(NamedTuple):
    """The advantage of each completion of a group, in order, and whether all that count scored alike."""

    values: list[float]
    is_flat: bool


def group_advantages(scores: Sequence[float | None]) -> GroupAdvantages:
    """Advantages within one group. A score of None leaves the group's statistics, and its advantage is zero.

    A group whose scores are all alike, or that has only one, has nothing to tell: every advantage is exactly zero.
    """
    counted = [score for score in scores if score is not None]
    if len(counted) < 2 or min(counted) == max(counted):
        return GroupAdvantages([0.0] * len(scores), True)
    mean, spread = statistics.fmean(counted), statistics.stdev(counted)
    values = [0.0 if score is None else (score - mean) / (spread + STEADY) for score in scores]
    return GroupAdvantages(values, False)
