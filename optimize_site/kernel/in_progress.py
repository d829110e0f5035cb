"""What a workload has in progress, for the registry, which archives workloads: apps above say what work they have."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InProgress:
    """One unfinished piece of work, and the command that ends it."""

    kind: str
    id: str
    phase: str
    command: str


Lister = Callable[[Any], Iterator[InProgress]]
LISTERS: list[Lister] = []
"""Each gives a workload's unfinished work of one kind. Apps add theirs when they are ready."""


def in_progress(workload: Any) -> list[InProgress]:
    """Everything unfinished of a workload."""
    return [item for lister in LISTERS for item in lister(workload)]
