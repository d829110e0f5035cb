"""Which saves are written, and how much of each, when they come faster than the disk takes them. Pure.

A save with a newer one behind it is written as weights only. A training state is written at least once in so many
saves or minutes, whichever comes first; the saves that wait before such a one are then skipped, except those of an
epoch's end. The newest save and each epoch's are written whole. A run that pauses skips all that waits before its
newest save.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Save:
    """One save: its step, what it is for, and what was captured of it; `state` is dropped for weights only."""

    step: int
    weights: Any
    state: Any
    epoch_end: bool = False
    final: bool = False

    @property
    def is_whole(self) -> bool:
        return self.state is not None


@dataclass
class SaveQueue:
    """The saves that wait. `clock` gives seconds; `dropped` is told of every state or save that is let go."""

    every: int
    minutes: float
    clock: Callable[[], float]
    waiting: list[Save] = field(default_factory=list)
    skipped: int = 0
    since_whole: int = 0
    whole_at: float | None = None

    def put(self, save: Save) -> list[Save]:
        """A newer save comes: the one before it loses its state, unless a state is due. Gives the skipped saves."""
        self.whole_at = self.clock() if self.whole_at is None else self.whole_at
        gone = self._settle(self.waiting[-1]) if self.waiting else []
        self.waiting.append(save)
        return gone

    def take(self) -> Save | None:
        """The save to write next."""
        if not self.waiting:
            return None
        save = self.waiting.pop(0)
        self.since_whole = 0 if save.is_whole else self.since_whole + 1
        return save

    def wrote(self, save: Save) -> None:
        """A save is on the disk: the minutes to the next state count from here."""
        if save.is_whole:
            self.whole_at = self.clock()

    def rest(self, *, keep_epochs: bool) -> list[Save]:
        """Nothing newer will come. What waits before the newest is skipped; `keep_epochs` keeps epochs' ends."""
        return self._skip(self.waiting[:-1], keep_epochs=keep_epochs)

    def _settle(self, save: Save) -> list[Save]:
        if save.epoch_end or save.final or not save.is_whole:
            return []
        if self._is_due(save):
            return self._skip([other for other in self.waiting if other is not save], keep_epochs=True)
        save.state = None
        return []

    def _is_due(self, save: Save) -> bool:
        """Whether this save's state must be written although a newer save waits."""
        ahead = self.waiting[: self.waiting.index(save)]
        whole = [index for index, other in enumerate(ahead) if other.is_whole]
        if whole:
            return len(ahead) - whole[-1] >= self.every
        if self.since_whole + len(ahead) + 1 >= self.every:
            return True
        return self.clock() - (self.whole_at or 0.0) >= self.minutes * 60

    def _skip(self, saves: list[Save], *, keep_epochs: bool) -> list[Save]:
        gone = [save for save in saves if not (keep_epochs and save.epoch_end)]
        self.waiting = [save for save in self.waiting if not any(save is other for other in gone)]
        self.skipped += len(gone)
        return gone
