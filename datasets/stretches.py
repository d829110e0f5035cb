"""Looks at a stretch of a file: a run of whole lines. What is found merges with what the next stretch gives."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets.errors import DatasetInvalid
from datasets.formats import RowExaminer
from datasets.formats.of_lines import ROW_FORMATS, format_of
from datasets.lines import BLANK, BYTE_ORDER_MARK, MAX_LINE_BYTES, Batch, Line, bare, read_batches
from optimize_site.kernel.errors import Problem

MAX_BAD_LINES = 20
MEBIBYTE = 1024 * 1024
PIECE_BYTES = 64 * 1024
"""Few enough for what is looked at together to stay in a processor's cache, and for no memory to be asked for anew."""


@dataclass(frozen=True)
class Region:
    """Where a stretch lies: a file, from which byte to which.

    `format` is empty where the first row has to tell; `compared` says how many of its rows to compare for repeats.
    """

    path: str
    start: int
    end: int
    format: str = ""
    compared: int = 0


@dataclass
class BadLines:
    """The bad lines of a stretch: the first MAX_BAD_LINES whole, the others as a number."""

    lines: list[tuple[int, Problem]] = field(default_factory=list)
    number: int = 0

    def add(self, line: int, problems: list[Problem]) -> None:
        self.number += 1
        if self.number <= MAX_BAD_LINES:
            self.lines += [(line, problem) for problem in problems]

    def merge(self, later: "BadLines") -> None:
        told = len({line for line, _ in self.lines})
        room = set(sorted({line for line, _ in later.lines})[:MAX_BAD_LINES - told])
        self.lines += [(line, problem) for line, problem in later.lines if line in room]
        self.number += later.number


@dataclass
class Stretch:
    """What a run of lines holds. Lines are numbered from its first, until it is moved; `is_start` of a file's."""

    format: str = ""
    is_start: bool = True
    num_lines: int = 0
    num_rows: int = 0
    num_blank_lines: int = 0
    num_carriage_returns: int = 0
    has_byte_order_mark: bool = False
    bad: BadLines = field(default_factory=BadLines)
    examiner: RowExaminer | None = None

    @property
    def is_exact(self) -> bool:
        """Whether every line is a row as it stands."""
        return not (self.num_blank_lines or self.num_carriage_returns or self.has_byte_order_mark)

    def take(self, batch: Batch, compared: int) -> None:
        """Look at the lines that ended together."""
        if batch.is_blank:
            self._skip(batch)
            return
        if self.examiner is None and not self._begin(batch, compared):
            return
        batch = self._without_carriage_returns(batch)
        others = sorted(batch.too_long.union(self._examiner().take(batch)))
        self.num_rows += batch.num_lines - len(others)
        for place in others:
            self._look(Line(batch.first + place, batch.lines[place], place in batch.too_long))
        self.num_lines += batch.num_lines

    def merge(self, later: "Stretch") -> None:
        """Add what the next stretch holds; its lines are numbered on from this one's."""
        later.move(self.num_lines)
        self.num_lines += later.num_lines
        self.num_rows += later.num_rows
        self.num_blank_lines += later.num_blank_lines
        self.num_carriage_returns += later.num_carriage_returns
        self.has_byte_order_mark |= later.has_byte_order_mark
        self.bad.merge(later.bad)
        if self.examiner is None:
            self.format, self.examiner = later.format, later.examiner
        elif later.examiner is not None:
            self.examiner.merge(later.examiner)

    def move(self, lines: int) -> None:
        """Number the lines on from those before."""
        if not lines:
            return
        self.bad.lines = [(line + lines, problem) for line, problem in self.bad.lines]
        if self.examiner is not None:
            self.examiner.move(lines)

    def state(self) -> dict[str, Any]:
        """All of it as JSON, for `stretch_of`."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        bad = [[line, problem.path, problem.code, problem.message, problem.hint] for line, problem in self.bad.lines]
        return {"format": self.format, **numbers, "bad": bad, "numBad": self.bad.number,
                "examiner": self.examiner.state() if self.examiner is not None else None}

    def _begin(self, batch: Batch, compared: int) -> bool:
        """Learn the format from the first row; False where the batch holds none."""
        if not self.format:
            row = first_row(batch, is_start=self.is_start)
            if row is None:
                self._skip(batch)
                return False
            refuse_other_form(row)
            self.format = format_of(row)
        self.examiner = ROW_FORMATS[self.format](compared)
        return True

    def _skip(self, batch: Batch) -> None:
        """Count lines that are blank, all of them."""
        self._without_carriage_returns(batch)
        self.has_byte_order_mark |= self._opens_file(batch.first) and batch.written.startswith(BYTE_ORDER_MARK)
        self.num_blank_lines += batch.num_lines
        self.num_lines += batch.num_lines

    def _without_carriage_returns(self, batch: Batch) -> Batch:
        batch, number = batch.without_carriage_returns()
        self.num_carriage_returns += number
        return batch

    def _look(self, line: Line) -> None:
        if self._opens_file(line.number) and line.data.startswith(BYTE_ORDER_MARK):
            self.has_byte_order_mark = True
            line = Line(1, bare(line.data, is_first=True), line.is_too_long)
        if line.is_blank and not line.is_too_long:
            self.num_blank_lines += 1
            return
        self.num_rows += 1
        problems = [_too_long()] if line.is_too_long else self._examiner().row(line.data, line.number)
        if problems:
            self.bad.add(line.number, problems)

    def _opens_file(self, line: int) -> bool:
        return self.is_start and line == 1

    def _examiner(self) -> RowExaminer:
        if self.examiner is None:
            raise ValueError("no row was seen")
        return self.examiner


NUMBERS = ("num_lines", "num_rows", "num_blank_lines", "num_carriage_returns", "has_byte_order_mark")


def stretch_of(state: Mapping[str, Any]) -> Stretch:
    """The stretch whose `state` this is."""
    stretch = Stretch(state["format"], **{name: state[name] for name in NUMBERS})
    stretch.bad = BadLines([(line, Problem(*problem)) for line, *problem in state["bad"]], state["numBad"])
    if state["examiner"] is not None:
        stretch.examiner = ROW_FORMATS[stretch.format](0)
        stretch.examiner.restore(state["examiner"])
    return stretch


def first_row(batch: Batch, *, is_start: bool = True) -> bytes | None:
    """The first line of these that is not blank, without the space around it."""
    lines = (bare(line, is_first=is_start and batch.first + place == 1).strip(BLANK)
             for place, line in enumerate(batch.lines))
    return next(filter(None, lines), None)


def examine_region(region: Region) -> Stretch:
    """What a region of a file holds. Raises DatasetInvalid where the first row shows another form than lines."""
    stretch = Stretch(region.format, is_start=region.start == 0)
    for batch in read_batches(read_region(region)):
        stretch.take(batch, region.compared)
    return stretch


def read_region(region: Region) -> Iterator[bytes]:
    """The bytes of a region, piece by piece."""
    with Path(region.path).open("rb", buffering=0) as file:
        file.seek(region.start)
        left = region.end - region.start
        while left > 0 and (piece := os.read(file.fileno(), min(left, PIECE_BYTES))):
            left -= len(piece)
            yield piece


def refuse_other_form(row: bytes) -> None:
    """Whole-file forms that people send in place of lines, told by the first row. Raises DatasetInvalid."""
    if row.startswith(b"["):
        raise file_refused("json_array", "The file is one JSON array; a dataset has one object a line.",
                           "Turn it into lines: `./optimize datasets import FILE --out ROWS.jsonl` or `jq -c '.[]'`.")
    if row == b"{":
        raise file_refused("pretty_printed", "The objects are spread over several lines; each stands on one.",
                           "Put each on one line: `./optimize datasets import FILE --out ROWS.jsonl` or `jq -c .`.")


def file_refused(code: str, sentence: str, advice: str) -> DatasetInvalid:
    """The refusal of a file that is no file of lines at all."""
    return DatasetInvalid(sentence, hint=f"{advice} Nothing was registered.",
                          problems=[Problem("file", code, sentence, advice)], badLines=0, moreBadLines=0)


def _too_long() -> Problem:
    return Problem("", "line_too_long", f"The line is longer than {MAX_LINE_BYTES // MEBIBYTE} MiB.",
                   "A row is one conversation; cut it into several.")
