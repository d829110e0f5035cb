"""The prompts of a reinforcement run: each row's messages before its answer, rendered as evaluation and serving do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize_child.failures import JobFailure
from optimize_child.reading.lines import Line, LineIndex, read_lines
from optimize_child.reading.questions import Question, question_of
from optimize_child.reading.refusals import RefusedRows, count_rows, refuse_rows
from optimize_child.reading.rows import LineRefused, check_row, has_images, read_row, text_of, told, tools_of
from optimize_child.reading.token_rows import RowStore, TokenRows
from optimize_child.rendering.template import ChatTemplate, TemplateRefused

TICK_ROWS = 256
NAMED_PROMPTS = 5
OWN_KEYS = {"messages", "tools"}


@dataclass(frozen=True)
class Prompt:
    """A row as a rollout asks it and a reward sees it."""

    row: int
    messages: list[dict[str, Any]]
    expected: str
    tokens: list[int]
    columns: dict[str, Any]


class Prompts:
    """The prompts of a dataset: their tokens as arrays, their lines where they stand on the disk."""

    def __init__(self, rows: TokenRows, lines: LineIndex) -> None:
        self.rows = rows
        self._lines = lines

    def __len__(self) -> int:
        return len(self.rows)

    def prompt(self, row: int) -> Prompt:
        """One prompt, with what a scorer is told of it."""
        read = read_row(self._lines.data(row))
        messages, columns = read["messages"], {name: read[name] for name in read if name not in OWN_KEYS}
        expected = text_of(messages[-1].get("content"))
        return Prompt(row, messages[:-1], expected, self.rows.row(row)[0].tolist(), columns)


class Room:
    """The prompts that leave a completion too little of maxSeqLength."""

    def __init__(self, length: int, completion: int) -> None:
        self.length, self.completion = length, completion
        self._count = 0
        self._first: list[tuple[str, int]] = []

    def check(self, place: str, tokens: int) -> None:
        """Note a prompt that leaves too little."""
        if tokens + self.completion > self.length:
            self._count += 1
            if self._count <= NAMED_PROMPTS:
                self._first.append((place, tokens))

    def refuse(self) -> None:
        """Raise JobFailure `row_too_long` with their number and the first of them, in the dataset's order."""
        if not self._count:
            return
        named = ", ".join(f"{place} ({tokens} tokens)" for place, tokens in self._first)
        more = f" and {self._count - NAMED_PROMPTS} more" if self._count > NAMED_PROMPTS else ""
        leave = "leaves" if self._count == 1 else "leave"
        raise JobFailure(
            "row_too_long",
            f"The prompts of {count_rows(self._count)} {leave} fewer than maxCompletionLength {self.completion} tokens "
            f"of maxSeqLength {self.length}: {named}{more}",
            hint="Raise config.maxSeqLength, lower rlHyperparams.maxCompletionLength, or shorten these prompts.",
            rows=[{"line": place, "tokens": tokens} for place, tokens in self._first],
            count=self._count,
        )


def read_prompts(
    files: Sequence[Path], template: ChatTemplate, room: Room, tick: Callable[[int], None], folder: Path | None = None
) -> Prompts:
    """Every prompt of a dataset. Raises JobFailure naming the rows that cannot be rolled out from."""
    return prompts_of_lines(read_lines(files), template, room, tick, folder)


def prompts_of_lines(
    rows: Iterable[Line],
    template: ChatTemplate,
    room: Room,
    tick: Callable[[int], None] = lambda _: None,
    folder: Path | None = None,
) -> Prompts:
    """The prompts of some lines. Raises JobFailure naming those that cannot be rolled out from."""
    store, lines, bad = RowStore(folder), LineIndex(), RefusedRows()
    for number, (line, question) in enumerate(_questions(rows, template, bad), start=1):
        room.check(line.place, len(question.tokens))
        if store.add(question.tokens, [True] * len(question.tokens)):
            lines.add(line)
        else:
            bad.add(line.place, "its prompt is empty under the chat template")
        if number % TICK_ROWS == 0:
            tick(number)
    refuse_rows(bad, "cannot be rolled out from", "Correct or remove these rows and register the dataset again.")
    room.refuse()
    if not len(lines):
        raise JobFailure("nothing_to_train", "The dataset has no prompt.", hint="Register a dataset with rows.")
    tick(len(lines))
    return Prompts(store.finish(), lines)


def _questions(
    lines: Iterable[Line], template: ChatTemplate, bad: RefusedRows
) -> Iterator[tuple[Line, Question]]:
    for line in lines:
        try:
            row = read_row(line.data)
            reason = why_not(row)
            if reason:
                bad.add(line.place, reason)
                continue
            yield line, question_of(template, line.position, row)
        except LineRefused as error:
            bad.add(line.place, str(error))
        except TemplateRefused as error:
            bad.add(line.place, f"the chat template refuses the prompt: {error}")


def why_not(row: dict[str, Any]) -> str | None:
    """Why completions of a row cannot be sampled and scored; None when they can."""
    problems = check_row(row)
    if problems:
        return told(problems)
    if has_images(row):
        return "the row has images, and a reinforcement run reads text"
    if tools_of(row):
        return "the row offers tools, and a reinforcement run does not render them into its prompts"
    if row["messages"][-1].get("tool_calls"):
        return "the row's answer calls tools, and a reward compares text"
    return None
