"""A dataset as the trainer reads it: every row's tokens and mask in flat arrays, refused rows named by their lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from optimize_child.failures import JobFailure
from optimize_child.masks import Conversation, MaskRefused, Policy, token_mask
from optimize_child.rows import LineRefused, check_row, has_images, messages_of, read_row, tools_of
from optimize_child.template import ChatTemplate, TemplateRefused
from optimize_child.template_check import TemplateCheck

IGNORED = -100
NAMED_ROWS = 20
BATCH_ROWS = 256


class Line(NamedTuple):
    """One non-blank line of a dataset: its place for messages, its position among the rows, its bytes."""

    place: str
    position: int
    data: bytes


class Rendered(NamedTuple):
    """A row on its way to tokens: the rendered text and what of it is trained."""

    line: Line
    text: str
    spans: list[Any]
    mask: list[int] | None


@dataclass(frozen=True)
class TokenRows:
    """Rows as flat arrays: row i is `ids[starts[i]:starts[i + 1]]`; its labels are the ids, -100 where not trained."""

    ids: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    too_long: int
    masked: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def row(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a row and its labels."""
        part = slice(self.starts[index], self.starts[index + 1])
        return self.ids[part], self.labels[part]

    def trained_tokens(self) -> int:
        return int(np.count_nonzero(self.labels != IGNORED))


@dataclass(frozen=True)
class Reading:
    """How rows are read: the loss policy, the longest row, what happens to a longer one, the mask column."""

    policy: Policy
    max_length: int
    truncation: str
    mask_column: str | None = None


def read_lines(files: Iterable[Path]) -> Iterator[Line]:
    """The rows of a dataset's files in order. Only LF ends a line; blank lines are no rows."""
    paths = list(files)
    position = 0
    for path in paths:
        shard = f" of {path.name}" if len(paths) > 1 else ""
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                if data.strip():
                    yield Line(f"line {number}{shard}", position, data.rstrip(b"\r\n"))
                    position += 1


def read_tokens(
    files: Iterable[Path], template: ChatTemplate, reading: Reading, tick: Callable[[int], None]
) -> TokenRows:
    """Every row of a dataset as tokens and mask. Raises JobFailure naming the rows that cannot be trained on."""
    reader = _Reader(template, reading)
    for count, batch in _batches(reader.render_all(read_lines(files)), BATCH_ROWS):
        reader.tokenize(batch)
        tick(count)
    return reader.finish()


def _batches(rows: Iterator[Rendered | None], size: int) -> Iterator[tuple[int, list[Rendered]]]:
    """Groups of rendered rows, each with the number of lines read so far; None is a row that was refused."""
    batch: list[Rendered] = []
    count = 0
    for count, row in enumerate(rows, start=1):
        if row is not None:
            batch.append(row)
        if len(batch) == size:
            yield count, batch
            batch = []
    yield count, batch


class _Reader:
    """Collects rows and refusals; a dataset is refused once, with all that is wrong with it."""

    def __init__(self, template: ChatTemplate, reading: Reading) -> None:
        self.template = template
        self.check = TemplateCheck(template)
        self.reading = reading
        self.ids: list[np.ndarray] = []
        self.labels: list[np.ndarray] = []
        self.bad: list[tuple[str, str]] = []
        self.long: list[tuple[int, str]] = []
        self.empty: list[str] = []
        self.masked = 0

    def render_all(self, lines: Iterator[Line]) -> Iterator[Rendered | None]:
        for line in lines:
            try:
                yield self._render(line)
            except (LineRefused, MaskRefused, TemplateRefused) as error:
                self.bad.append((line.place, str(error)))
                yield None

    def _render(self, line: Line) -> Rendered:
        row = read_row(line.data)
        problems = check_row(row)
        if problems:
            raise MaskRefused("; ".join(f"{problem.path}: {problem.message}" for problem in problems))
        if has_images(row):
            raise MaskRefused("the row has images, and this run trains on text")
        conversation = Conversation(self.check, messages_of(row), tools_of(row))
        mask = row.get(self.reading.mask_column) if self.reading.mask_column else None
        if mask is not None:
            return Rendered(line, conversation.text, [], _check_mask(mask, self.reading.mask_column))
        return Rendered(line, conversation.text, conversation.trained_spans(self.reading.policy), None)

    def tokenize(self, batch: list[Rendered]) -> None:
        if not batch:
            return
        ids, offsets = self.template.tokenize([row.text for row in batch])
        for row, row_ids, row_offsets in zip(batch, ids, offsets, strict=True):
            try:
                self._add(row, row_ids, row_offsets)
            except MaskRefused as error:
                self.bad.append((row.line.place, str(error)))

    def _add(self, row: Rendered, ids: list[int], offsets: list[tuple[int, int]]) -> None:
        if row.mask is not None and len(row.mask) != len(ids):
            raise MaskRefused(f"the mask has {len(row.mask)} entries and the row has {len(ids)} tokens")
        if len(ids) > self.reading.max_length:
            self.long.append((len(ids), row.line.place))
            return
        mask = token_mask(offsets, row.spans) if row.mask is None else [bool(bit) for bit in row.mask]
        # The first token is predicted from nothing, so it cannot be trained.
        if not any(mask[1:]):
            self.empty.append(row.line.place)
            return
        mask[0] = False
        self.masked += row.mask is not None
        tokens = np.asarray(ids, dtype=np.int32)
        self.ids.append(tokens)
        self.labels.append(np.where(mask, tokens, np.int32(IGNORED)))

    def finish(self) -> TokenRows:
        refuse_rows(self.bad, "cannot be trained on", "Correct or remove these rows and register the dataset again.")
        if self.reading.truncation == "error":
            self._refuse_long()
        self._refuse_empty()
        starts = np.zeros(len(self.ids) + 1, dtype=np.int64)
        np.cumsum([len(ids) for ids in self.ids], out=starts[1:])
        ids, labels = np.concatenate(self.ids), np.concatenate(self.labels)
        return TokenRows(ids, labels, starts, too_long=len(self.long), masked=self.masked)

    def _refuse_long(self) -> None:
        if not self.long:
            return
        longest = sorted(self.long, key=lambda item: -item[0])
        named = ", ".join(f"{place} ({tokens} tokens)" for tokens, place in longest[:NAMED_ROWS])
        raise JobFailure(
            "row_too_long",
            f"{_rows(len(longest))} longer than maxSeqLength {self.reading.max_length}: {named}{_more(longest)}",
            hint="Raise config.maxSeqLength, shorten the rows, or set data.truncation to drop to leave them out.",
            rows=[{"line": place, "tokens": tokens} for tokens, place in longest[:NAMED_ROWS]],
            count=len(longest),
        )

    def _refuse_empty(self) -> None:
        if self.empty:
            raise JobFailure(
                "nothing_to_train",
                f"{_rows(len(self.empty))} without a token to train on: "
                f"{', '.join(self.empty[:NAMED_ROWS])}{_more(self.empty)}",
                hint="Give these rows an answer, or change the loss group so that it covers one.",
                rows=[{"line": place} for place in self.empty[:NAMED_ROWS]],
                count=len(self.empty),
            )
        if not self.ids:
            raise JobFailure(
                "nothing_to_train",
                f"No row is left: {_rows(len(self.long))} longer than maxSeqLength {self.reading.max_length}.",
                hint="Raise config.maxSeqLength or shorten the rows.",
            )


def refuse_rows(bad: list[tuple[str, str]], what: str, hint: str) -> None:
    """Raise JobFailure `bad_row` for the refused rows, the first of them named with their reasons."""
    if not bad:
        return
    named = "; ".join(f"{place}: {text}" for place, text in bad[:NAMED_ROWS])
    raise JobFailure(
        "bad_row",
        f"{_rows(len(bad))} {what}. {named}{_more(bad)}",
        hint=hint,
        rows=[{"line": place, "reason": text} for place, text in bad[:NAMED_ROWS]],
        count=len(bad),
    )


def _check_mask(mask: Any, column: str | None) -> list[int]:
    """An explicit mask as given; its length is checked once the row has tokens."""
    if not isinstance(mask, list) or not mask or any(type(bit) is not int or bit not in (0, 1) for bit in mask):
        raise MaskRefused(f"{column} is not a list of 0 and 1")
    if mask[0] == 1:
        raise MaskRefused(f"{column} selects the first token, which nothing predicts")
    if 1 not in mask:
        raise MaskRefused(f"{column} selects no token")
    return mask


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _more(found: list[Any]) -> str:
    return f" and {len(found) - NAMED_ROWS} more" if len(found) > NAMED_ROWS else ""
