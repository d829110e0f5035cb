"""Which rows make which update: a permutation of its own for each epoch, drawn from the run's one seed.

The order is a function of (seed, epoch) alone, so an attempt that resumes in the middle of any epoch reads on exactly
where the interrupted one stopped.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from functools import lru_cache

import numpy as np


@lru_cache(maxsize=2)
def epoch_order(count: int, *, seed: int, epoch: int, shuffle: bool) -> np.ndarray:
    """The order of `count` sequences in one epoch."""
    if not shuffle:
        return np.arange(count)
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(count)


class Updates:
    """The batch sampler of a run: each batch is all the sequences of one optimizer update.

    A branch that keeps its source's place in the data starts `offset` updates into the order. One iteration gives as
    many updates as an epoch has, wherever in the order it begins.
    """

    def __init__(self, count: int, *, per_update: int, seed: int, shuffle: bool, offset: int = 0) -> None:
        self.count = count
        self.per_update = per_update
        self.seed = seed
        self.shuffle = shuffle
        self.offset = offset
        self.epoch = 0

    def __len__(self) -> int:
        return -(-self.count // self.per_update)

    def __iter__(self) -> Iterator[list[int]]:
        first = self.offset + self.epoch * len(self)
        for position in range(first, first + len(self)):
            yield self._update(*divmod(position, len(self)))

    def _update(self, epoch: int, number: int) -> list[int]:
        order = epoch_order(self.count, seed=self.seed, epoch=epoch, shuffle=self.shuffle)
        return order[number * self.per_update : (number + 1) * self.per_update].tolist()

    def ends_epoch(self, step: int) -> bool:
        """Whether an epoch of the data ends with the run's update `step`."""
        return (self.offset + step) % len(self) == 0


def one_row_each(count: int) -> list[list[int]]:
    """Sequences of a run that does not pack: each row is one."""
    return [[index] for index in range(count)]


def pack(lengths: np.ndarray, capacity: int) -> list[list[int]]:
    """Rows grouped into sequences of at most `capacity` tokens: longest first, each into the fullest that has room."""
    room: list[tuple[int, int]] = []
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda index: (-int(lengths[index]), index)):
        length = int(lengths[row])
        at = bisect.bisect_left(room, (length, -1))
        if at == len(room):
            groups.append([row])
            left, group = capacity - length, len(groups) - 1
        else:
            free, group = room.pop(at)
            groups[group].append(row)
            left = free - length
        bisect.insort(room, (left, group))
    return sorted(sorted(group) for group in groups)


def total_updates(updates_per_epoch: int, *, epochs: int, max_steps: int | None) -> int:
    """How many updates a run makes: its epochs, or fewer where a cap says so."""
    whole = epochs * updates_per_epoch
    return min(whole, max_steps) if max_steps and max_steps > 0 else whole
