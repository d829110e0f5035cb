"""Which process is struck how at which place, for every pair of them, in as few runs as it takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

POWER = "cut the power"
SERVERS = ("every device worker", "control", "web", "postgres", "valkey", "the supervisor")
JOB = ("the job", "the shepherd")
ANY = (POWER, *(f"{how} {whom}" for how in ("kill", "stop") for whom in SERVERS))
OF_A_JOB = (*ANY, *(f"{how} {whom}" for how in ("kill", "stop") for whom in JOB))
BEFORE_A_JOB = ("RESOLVING_DATASET", "AWAITING_BASE_MODEL", "AWAITING_CAPACITY")
WITH_A_JOB = ("STARTING_JOB", "QUEUED", "PREPARING", "TRAINING", "PAUSING")
BEHIND_IT = ("PAUSED", "RECORDING", "CLEANING_UP")
PLACES = (*BEFORE_A_JOB, *WITH_A_JOB, *BEHIND_IT)
JUDGED_PLACES = ("DEPLOYING_GRADER", "AWAITING_GRADER")
"""Of a run whose reward asks a model."""
APART = 4
"""Kinds between those of neighbouring places: a place behind a job's death is never one that needs that job."""


@dataclass(frozen=True)
class Aim:
    """What happens to whom while the box stands at a place."""

    phase: str
    kind: str

    @property
    def whom(self) -> str:
        return self.kind.partition(" ")[2]

    def __str__(self) -> str:
        return f"{self.kind} as a run leaves {self.phase}"


def kinds_at(phase: str) -> tuple[str, ...]:
    """What can be done there: a job can be struck where there is one."""
    return OF_A_JOB if phase in WITH_A_JOB else ANY


def passages(places: tuple[str, ...] = PLACES) -> list[tuple[Aim, ...]]:
    """One tuple a run, with an aim for each place it passes; together every kind at every place."""
    count = max(len(kinds_at(phase)) for phase in places)
    return [tuple(Aim(phase, _of(kinds_at(phase), number + APART * at)) for at, phase in enumerate(places))
            for number in range(count)]


def _of(kinds: tuple[str, ...], number: int) -> str:
    return kinds[number % len(kinds)]
