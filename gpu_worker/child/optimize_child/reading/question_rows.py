"""The rows of an evaluation where they stand on the disk: what one says is in memory from its asking to its answer."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimize_child.answering.answers import Asked
from optimize_child.reading.lines import Line, LineIndex
from optimize_child.reading.questions import Question, question_with
from optimize_child.reading.rows import read_row
from optimize_child.reading.token_rows import TokenLists


class QuestionRows:
    """The rows to ask, in order: of each its place in its file and its position, its prompt's tokens in a file of their
    own. Rows that stand in the plan are read from there."""

    def __init__(self, inline: Sequence[dict[str, Any]], folder: Path | None = None) -> None:
        self.tokens = TokenLists(folder)
        self._inline = inline
        self._lines = LineIndex()
        self._positions = array("q")

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, line: Line, tokens: Sequence[int]) -> None:
        """One more row, with the tokens of its prompt."""
        self._lines.add(line)
        self._positions.append(line.position)
        self.tokens.add(tokens)

    def question(self, at: int) -> Question:
        """The row at `at`, read anew."""
        position = self._positions[at]
        row = self._inline[position] if self._inline else read_row(self._lines.data(at))
        return question_with(position, row, self.tokens.tokens(at))


class Prompts(Sequence[Asked]):
    """The prompts of some of the rows, each made when it is taken; its key is the row's number in `rows`."""

    def __init__(self, rows: QuestionRows, chosen: Sequence[int]) -> None:
        self._rows, self._chosen = rows, array("q", chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, at: Any) -> Any:
        row = self._chosen[at]
        return Asked(row, self._rows.tokens.tokens(row))
