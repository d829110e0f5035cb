"""What a campaign did so far: a line of JSON for each round, so that a later piece of it goes on where one ended."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Played:
    """A round that was played: the kinds of its runs, seconds, jobs, each fault's kind and moment, what was lost,
    and the kinds of the faults that found nothing to strike.

    One that `is_whole` reached its end; behind any other the box was not worth going on with.
    """

    number: int
    lives: tuple[str, ...]
    seconds: int
    attempts: int
    faults: tuple[tuple[str, str], ...]
    lost: tuple[str, ...]
    is_whole: bool = True
    missed: tuple[str, ...] = ()

    def __str__(self) -> str:
        moments = "; ".join(moment for _, moment in self.faults) or "no fault found anything to strike"
        return "".join((f"  round {self.number:3} {' and '.join(self.lives)}, {self.seconds} s: {moments}",
                        *(f"\n    LOST: {what}" for what in self.lost)))


def unplayable(number: int, lives: tuple[str, ...], error: Exception) -> Played:
    """A round behind which the box itself did not come back."""
    return Played(number, lives, 0, 0, (), (f"could not be played to its end: {str(error)[:2000]}",), is_whole=False)


@dataclass
class Tally:
    """The rounds of a campaign in order; each is written behind `path`, where there is one, as it ends."""

    path: Path | None = None
    played: list[Played] = field(default_factory=list)

    def add(self, played: Played) -> None:
        self.played.append(played)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(asdict(played)) + "\n")

    @property
    def injected(self) -> Counter[str]:
        return Counter(kind for played in self.played for kind, _ in played.faults)

    @property
    def phases(self) -> Counter[str]:
        """How many faults met a run in which phase."""
        return Counter(moment.rpartition(", in ")[2] for played in self.played for _, moment in played.faults)

    @property
    def missed(self) -> Counter[str]:
        return Counter(kind for played in self.played for kind in played.missed)

    @property
    def faults(self) -> int:
        return sum(len(played.faults) for played in self.played)

    @property
    def rounds(self) -> int:
        return len(self.played)

    @property
    def attempts(self) -> int:
        return sum(played.attempts for played in self.played)

    @property
    def seconds(self) -> int:
        return sum(played.seconds for played in self.played)

    @property
    def lost(self) -> list[str]:
        return [f"round {played.number}, {what}" for played in self.played for what in played.lost]


def read_tally(path: Path, seed: int | str) -> Tally:
    """The tally of a report, or a new one whose first line states the seed, or the word for what is aimed. Raises
    ValueError for another one's."""
    if not path.exists():
        path.write_text(json.dumps({"seed": seed}) + "\n")
    first, *lines = path.read_text().splitlines()
    if json.loads(first) != {"seed": seed}:
        raise ValueError(f"{path} is the report of {first}, and --seed is {seed}; name another report or that seed")
    return Tally(path, [_played(json.loads(line)) for line in lines])


def _played(body: dict[str, Any]) -> Played:
    faults = tuple((kind, moment) for kind, moment in body["faults"])
    return Played(**body | {"lives": tuple(body["lives"]), "faults": faults, "lost": tuple(body["lost"]),
                            "missed": tuple(body["missed"])})
