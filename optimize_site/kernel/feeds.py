"""What pages of a lower app show of higher ones, without importing them: lists of items that apps contribute to.

Places: `now`, `waiting`, `attention`, `promoted` and `checklist` of the home page; `base-models` of the box page;
`uses` of a dataset version. A place that has a subject gives it to each contributor.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Item:
    """One line of a list."""

    kind: str
    title: str
    url: str
    state: str = ""
    detail: str = ""
    share: float | None = None
    """How far it is, 0 to 1."""
    note: str = ""
    """Beside the progress: what is left, or the next step."""
    at: datetime | None = None
    is_done: bool = False
    action: str = ""
    """The words of a link that does the next step."""


Feed = Callable[[Any], Iterable[Item]]
FEEDS: dict[str, list[tuple[int, Feed]]] = defaultdict(list)
Finder = Callable[[str], Iterable[Item]]
FINDERS: list[Finder] = []
"""Given a name or the beginning of an ID, what it may mean."""


def feed(place: str, order: int = 50) -> Callable[[Feed], Feed]:
    """Adds a contributor to a place; lower orders come first."""
    def add(function: Feed) -> Feed:
        FEEDS[place].append((order, function))
        FEEDS[place].sort(key=lambda entry: entry[0])
        return function
    return add


def items(place: str, subject: Any = None) -> list[Item]:
    """Everything that apps contribute to a place, in their order."""
    return [item for _, function in FEEDS[place] for item in function(subject)]


def finder(function: Finder) -> Finder:
    """Adds a finder to the search."""
    FINDERS.append(function)
    return function


def find(text: str) -> list[Item]:
    """Everything that a name or the beginning of an ID may mean."""
    return [item for function in FINDERS for item in function(text)] if text else []
