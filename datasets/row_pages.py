"""Pages of a dataset's rows: by position or by the words they say, within a bounded time whatever the size."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from datasets.errors import RowsNotSearchable
from datasets.formats.prepared import FORMAT as PREPARED
from datasets.models import ExampleSet
from datasets.queries import example_set
from datasets.row_documents import SHOWN_BYTES, row_document
from datasets.row_repeats import note_repeats
from datasets.row_search import Words
from datasets.stored_rows import StoredRow, blocks_from, rows_from
from optimize_site.kernel.api import MAX_LIMIT
from optimize_site.kernel.errors import InvalidInput
from registry.models import Version

MAX_SEARCH_CHARACTERS = 200


@dataclass
class Budget:
    """How much one page may read: bytes, and seconds by `clock` from its first row on."""

    seconds: float = 0.6
    num_bytes: int = 256 * 1024 * 1024
    clock: Callable[[], float] = time.monotonic
    _began: float | None = None

    def spend(self, num_bytes: int) -> None:
        """Note that a row was read."""
        self.num_bytes -= num_bytes
        if self._began is None:
            self._began = self.clock()

    @property
    def is_spent(self) -> bool:
        """Whether there is nothing left."""
        return self.num_bytes <= 0 or (self._began is not None and self.clock() - self._began > self.seconds)


def read_page(version: Version, *, offset: int = 0, limit: int = 25, search: str = "", room: int = SHOWN_BYTES,
              budget: Budget | None = None) -> dict[str, Any]:
    """Rows from position `offset` on: `{"rows", "total", "limit", "offset", "nextOffset", "repeats"}`.

    With `search`, only rows of which one message says those words in that order, whatever their case. `nextOffset` is
    where to go on, None at the end: the next row, or where the time was up, so that a page of a search may hold fewer
    rows than asked for, or none. Rows that stand in the dataset more than once say where else (`repeats`); rows over
    `room` bytes are cut. Raises InvalidInput, RowsNotSearchable, RowsGone.
    """
    _check(offset, limit, search)
    examples, budget = example_set(version), budget or Budget()
    if search and examples.format == PREPARED:
        raise RowsNotSearchable(f"{version.reference} holds token rows, which have no words to search for.",
                                hint="Read them by position.")
    shown, further = _search(examples, offset, Words(search), limit, budget) if search.split() \
        else _read(examples, offset, limit, budget)
    documents = [row_document(row, examples.format, room=room) for row in shown]
    repeats = note_repeats(examples, shown, documents, budget)
    return {"rows": documents, "total": examples.num_examples, "limit": limit, "offset": offset,
            "nextOffset": further, "repeats": repeats}


def _read(examples: ExampleSet, offset: int, limit: int, budget: Budget) -> tuple[list[StoredRow], int | None]:
    """The rows from `offset` on, and the position to go on from."""
    shown: list[StoredRow] = []
    for row in rows_from(examples, offset):
        if len(shown) == limit or budget.is_spent:
            return shown, row.position
        shown.append(row)
        budget.spend(len(row.data))
    return shown, None


def _search(examples: ExampleSet, offset: int, words: Words, limit: int,
            budget: Budget) -> tuple[list[StoredRow], int | None]:
    """The rows from `offset` on that say the words, and the position to go on from: the next such row where it was
    reached."""
    shown: list[StoredRow] = []
    for block in blocks_from(examples, offset):
        for row in block.rows if words.may_be_in(block.data) else ():
            if words.are_in(row.data):
                if len(shown) == limit:
                    return shown, row.position
                shown.append(row)
        budget.spend(len(block.data))
        if budget.is_spent:
            return shown, block.end if block.end < examples.num_examples else None
    return shown, None


def _check(offset: int, limit: int, search: str) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit is {limit}; it must be between 1 and {MAX_LIMIT}.", code="invalid_limit")
    if offset < 0:
        raise InvalidInput(f"offset is {offset}; it must not be negative.", code="invalid_offset")
    if len(search) > MAX_SEARCH_CHARACTERS:
        raise InvalidInput(f"search has {len(search)} characters; {MAX_SEARCH_CHARACTERS} are the most.",
                           code="invalid_search", hint="Search for fewer words.")
