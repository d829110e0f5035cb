"""The rows of a dataset that are too long for the run, and what `data.truncation` makes of them."""

from __future__ import annotations

import heapq

from optimize_child.failures import JobFailure
from optimize_child.reading.refusals import NAMED_ROWS, count_rows, refuse_long_rows


class LongRows:
    """Rows that stay longer than maxSeqLength: refused with their lengths, or left out and counted. Holds only those
    that a refusal names: a large dataset may have millions."""

    def __init__(self, limit: int, truncation: str) -> None:
        self.limit = limit
        self.truncation = truncation
        self._count = 0
        self._longest: list[tuple[int, int, str]] = []

    def __len__(self) -> int:
        return self._count

    def add(self, tokens: int, place: str) -> None:
        """A row of so many tokens: whole, or for the trimming values the shortest it gets."""
        self._count += 1
        found = (tokens, -self._count, place)
        if self._count <= NAMED_ROWS:
            heapq.heappush(self._longest, found)
        else:
            heapq.heappushpop(self._longest, found)

    def refuse(self) -> None:
        """Raise JobFailure `row_too_long`, unless such rows are left out."""
        longest = [(tokens, place) for tokens, _, place in sorted(self._longest, reverse=True)]
        if self.truncation == "error":
            refuse_long_rows(
                longest,
                self._count,
                f"longer than maxSeqLength {self.limit}",
                "Raise config.maxSeqLength, shorten the rows, or set data.truncation to drop to leave them out.",
            )
        elif self.truncation == "oldest":
            refuse_long_rows(
                longest,
                self._count,
                f"longer than maxSeqLength {self.limit} even with all turns but the last removed",
                "Raise config.maxSeqLength, shorten the rows, or set data.truncation to oldest_or_drop to leave them "
                "out.",
            )


def no_row_left(dataset: str, long_rows: LongRows) -> JobFailure:
    """The failure of a dataset of which every row was left out."""
    return JobFailure(
        "nothing_to_train",
        f"No row of the {dataset} dataset is left: {count_rows(len(long_rows))} longer than maxSeqLength "
        f"{long_rows.limit}, which data.truncation {long_rows.truncation} leaves out.",
        hint="Raise config.maxSeqLength or shorten the rows.",
    )
