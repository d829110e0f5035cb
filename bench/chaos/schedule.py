"""What happens in a campaign, from its seed alone: rounds of runs and the faults that meet them. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

STEPS, SAVE_EVERY = 80, 8
LIVES = ("sft", "dropout", "dpo", "branch")
FEWEST_FAULTS, MOST_FAULTS = 18, 26
FIRST_ROUNDS = 2
"""Rounds that meet every kind once between them, so that a short campaign has met them all."""
DEALT = 5
"""Faults of a later round whose kinds are dealt in turn, so that it meets the rare ones too; the others are drawn."""
MOST_DEATHS = 4
"""Of a run's jobs in a round: fewer than the attempts in a row that a run may lose without a new save."""
DEADLY = ("the job", "the shepherd", "the power", "a bit", "file short", "too late")
BY_PLAN = "pause where its plan says"

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
    BY_PLAN: 4,
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

    def pauses_at(self, life: int) -> int | None:
        """The update at which the descriptor of one of the runs states that it pauses."""
        return next((fault.step for fault in self.faults if (fault.kind, fault.life) == (BY_PLAN, life)), None)


def rounds(seed: int) -> Iterator[Round]:
    """The rounds of a seed, without end; the same for ever."""
    deck = _dealt(random.Random(f"{seed}/deck"))
    number = 0
    while True:
        number += 1
        rng = random.Random(f"{seed}/{number}")
        lives = (rng.choice(LIVES), rng.choice(LIVES))
        faults = sorted((_fault(rng, kind) for kind in _kinds(number, deck, rng)), key=lambda one: one.step)
        # Where a plan pauses, the run waits until it is resumed: what else meets it there comes behind that.
        possible = sorted(_possible(_survivable(faults), lives), key=lambda one: (one.step, one.kind != BY_PLAN))
        yield Round(number, lives, tuple(possible))


def _dealt(rng: random.Random) -> Iterator[str]:
    """Every kind once in a random order, then once more in another, without end."""
    while True:
        yield from rng.sample(list(WEIGHTS), len(WEIGHTS))


def _kinds(number: int, deck: Iterator[str], rng: random.Random) -> list[str]:
    if number <= FIRST_ROUNDS:
        return list(islice(deck, len(WEIGHTS) // FIRST_ROUNDS))
    drawn = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=rng.randint(FEWEST_FAULTS, MOST_FAULTS) - DEALT)
    return [*islice(deck, DEALT), *drawn]


def _survivable(faults: list[Fault]) -> Iterator[Fault]:
    """A death that would be a run's last, because it gives up then, is the other run's; without those of neither."""
    deaths = [0, 0]
    for fault in faults:
        if fault.is_deadly:
            if "power" not in fault.kind and deaths[fault.life] == MOST_DEATHS:
                fault = replace(fault, life=1 - fault.life)
            dying = (0, 1) if "power" in fault.kind else (fault.life,)
            if any(deaths[life] == MOST_DEATHS for life in dying):
                continue
            for life in dying:
                deaths[life] += 1
        yield fault


def _possible(faults: Iterator[Fault], lives: tuple[str, str]) -> Iterator[Fault]:
    """A plan pauses once, between two updates, and not that of a branch, which has none of its own."""
    left = [life for life in (0, 1) if lives[life] != "branch"]
    for fault in faults:
        if fault.kind == BY_PLAN:
            if not left:
                continue
            life = fault.life if fault.life in left else left[0]
            left.remove(life)
            fault = replace(fault, life=life, step=min(max(fault.step, 1), STEPS - 1))
        yield fault


def _fault(rng: random.Random, kind: str) -> Fault:
    # The first and the last updates stand for all that lies before and behind them: starting, recording, cleaning up.
    step = rng.choice([0, STEPS, *range(1, STEPS), *range(1, STEPS)]) if rng.random() < 0.9 else rng.choice([0, STEPS])
    return Fault(kind, rng.randrange(2), step, rng.uniform(0, 0.6), rng.uniform(0.2, 2.0), rng.random())
