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


def place(number: int, shard: int, shards: int) -> str:
    """How messages name a line: by its number, counted from 1, and by its shard, counted from 0, where there are
    several. The files of a stored dataset are named by their digests, which nobody knows."""
    return f"line {number}" if shards == 1 else f"line {number} of {shard_name(shard)}"


def shard_name(shard: int) -> str:
    """What the registry calls the shard at this place, from 0."""
    return f"examples-{shard:05d}.jsonl"


def read_lines(files: Iterable[Path]) -> Iterator[Line]:
    """The rows of a dataset's files in order. Only LF ends a line; blank lines are no rows."""
    paths = list(files)
    position = 0
    for shard, path in enumerate(paths):
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                if data.strip():
                    yield Line(place(number, shard, len(paths)), position, data.rstrip(b"\r\n"))
                    position += 1
