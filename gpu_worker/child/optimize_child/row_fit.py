"""The rows of a dataset that are too long for the run, and what `data.truncation` makes of them."""

from __future__ import annotations

from optimize_child.failures import JobFailure
from optimize_child.refusals import count_rows, refuse_long_rows


class LongRows:
    """Rows that stay longer than maxSeqLength: refused with their lengths, or left out and counted."""

    def __init__(self, limit: int, truncation: str) -> None:
        self.limit = limit
        self.truncation = truncation
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, tokens: int, place: str) -> None:
        """A row of so many tokens: whole, or for the trimming values the shortest it gets."""
        self._found.append((tokens, place))

    def refuse(self) -> None:
        """Raise JobFailure `row_too_long`, unless such rows are left out."""
        if self.truncation == "error":
            refuse_long_rows(
                self._found,
                f"longer than maxSeqLength {self.limit}",
                "Raise config.maxSeqLength, shorten the rows, or set data.truncation to drop to leave them out.",
            )
        elif self.truncation == "oldest":
            refuse_long_rows(
                self._found,
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
