"""The lines of a dataset's files, read from the disk one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """One non-blank line of a dataset: its place for messages, its position among the rows, its bytes."""

    place: str
    position: int
    data: bytes


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
