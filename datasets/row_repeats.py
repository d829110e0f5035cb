"""Where else in its dataset a row stands: equal bytes, found through the rows' checksums."""

from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Protocol

from datasets.formats.prepared import FORMAT as PREPARED
from datasets.models import ExampleSet
from datasets.row_index import checksum
from datasets.stored_rows import StoredRow, index_of, parts_of, row_at

LISTED = 5


@dataclass
class Equals:
    """The rows of one checksum: how many, and the first of their positions."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, position: int) -> None:
        self.count += 1
        if len(self.first) <= LISTED:
            self.first.append(position)


class Time(Protocol):
    @property
    def is_spent(self) -> bool: ...


def note_repeats(examples: ExampleSet, rows: list[StoredRow], documents: list[dict[str, Any]],
                 time: Time) -> dict[str, Any]:
    """Add to each document `repeats`: how often its row stands elsewhere and the first of those positions.

    Objects are indexed and compared while there is time. Gives how many rows were compared with these, `{"compared",
    "total"}`; fewer than all the first times that a large dataset is read.
    """
    if examples.format == PREPARED or not rows:
        return {"compared": 0, "total": examples.num_examples}
    found = {checksum(row.data): Equals() for row in rows}
    compared = []
    for part in takewhile(lambda _: not time.is_spent, parts_of(examples)):
        for number, sum_ in index_of(part).rows_like(found):
            found[sum_].add(part.first + number)
        compared.append(part)
    for row, document in zip(rows, documents, strict=True):
        is_own = any(part.first <= row.position < part.first + part.num_rows for part in compared)
        document["repeats"] = _confirmed(examples, row, found[checksum(row.data)], is_own)
    return {"compared": sum(part.num_rows for part in compared), "total": examples.num_examples}


def _confirmed(examples: ExampleSet, row: StoredRow, equals: Equals, is_own: bool) -> dict[str, Any]:
    """The rows of the same checksum without the row itself, each listed one compared byte by byte."""
    others = [position for position in equals.first if position != row.position][:LISTED]
    same = [position for position in others if row_at(examples, position).data == row.data]
    return {"count": equals.count - is_own - (len(others) - len(same)), "positions": same}
