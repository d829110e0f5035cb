"""What happens in a campaign, from its seed alone: rounds of runs and the faults that meet them. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

STEPS, SAVE_EVERY = 80, 8
LIVES = ("sft", "dropout", "dpo", "branch")
FEWEST_FAULTS, MOST_FAULTS = 18, 26
DEALT = 5
"""Faults of a round whose kinds are dealt in turn, so that a campaign meets the rare ones too; the others are drawn."""
MOST_DEATHS = 3
"""Of a run's jobs in a round: fewer than the attempts in a row that a run may lose without a new save."""
DEADLY = ("the job", "the shepherd", "the power", "a bit", "file short", "too late")

WEIGHTS = {
    "kill the job": 10,
    "kill the job inside a save": 3,
    "kill the shepherd": 3,
    "kill the job and its shepherd": 2,
    "stop the job": 4,
    "kill a device worker": 8,
    "stop a device worker": 4,
    "wake a device worker too late": 3,
    "kill every device worker": 3,
    "kill a device worker as it stores": 3,
    "kill control": 4,
    "stop control": 2,
    "kill web": 3,
    "stop web": 2,
    "kill postgres": 4,
    "stop postgres": 3,
    "kill valkey": 4,
    "stop valkey": 2,
    "lose the messages": 4,
    "double the messages": 4,
    "kill the supervisor": 2,
    "stop the supervisor": 2,
    "cut the power": 3,
    "restart the box": 1,
    "pause and save": 5,
    "pause at the latest": 4,
    "cancel another run": 2,
    "cancel another run as it ends": 2,
    "set the clock forward": 2,
    "set the clock back": 2,
    "fill the disk": 2,
    "flip a bit": 5,
    "cut a file short": 4,
}


@dataclass(frozen=True)
class Fault:
    """One fault: what, of which of the round's runs, once that run is at an update, and how long after that.

    `pick` in [0, 1) chooses among what there is then: a worker, a file, a bit. `lasts` is how long what is stopped
    stays stopped.
    """

    kind: str
    life: int
    step: int
    after: float
    lasts: float
    pick: float

    @property
    def is_deadly(self) -> bool:
        """Whether it ends a job without a word."""
        return not self.kind.startswith("stop") and any(word in self.kind for word in DEADLY)

    def __str__(self) -> str:
        return f"{self.kind} (run {self.life + 1}, update {self.step}, {self.after:.2f} s later)"


@dataclass(frozen=True)
class Round:
    """Two runs at once and what happens to them, in order."""

    number: int
    lives: tuple[str, str]
    faults: tuple[Fault, ...]


def rounds(seed: int) -> Iterator[Round]:
    """The rounds of a seed, without end; the same for ever."""
    deck = _dealt(random.Random(f"{seed}/deck"))
    number = 0
    while True:
        number += 1
        rng = random.Random(f"{seed}/{number}")
        lives = (rng.choice(LIVES), rng.choice(LIVES))
        drawn = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=rng.randint(FEWEST_FAULTS, MOST_FAULTS) - DEALT)
        faults = sorted((_fault(rng, kind) for kind in [*islice(deck, DEALT), *drawn]), key=lambda one: one.step)
        yield Round(number, lives, tuple(_survivable(faults)))


def _dealt(rng: random.Random) -> Iterator[str]:
    """Every kind once in a random order, then once more in another, without end."""
    while True:
        yield from rng.sample(list(WEIGHTS), len(WEIGHTS))


def _survivable(faults: list[Fault]) -> Iterator[Fault]:
    """Without the deaths that would be a run's last, because it gives up then."""
    deaths = [0, 0]
    for fault in faults:
        if fault.is_deadly:
            for life in (0, 1) if "power" in fault.kind else (fault.life,):
                deaths[life] += 1
            if max(deaths) > MOST_DEATHS:
                continue
        yield fault


def _fault(rng: random.Random, kind: str) -> Fault:
    # The first and the last updates stand for all that lies before and behind them: starting, recording, cleaning up.
    step = rng.choice([0, STEPS, *range(1, STEPS), *range(1, STEPS)]) if rng.random() < 0.9 else rng.choice([0, STEPS])
    return Fault(kind, rng.randrange(2), step, rng.uniform(0, 0.6), rng.uniform(0.2, 2.0), rng.random())
