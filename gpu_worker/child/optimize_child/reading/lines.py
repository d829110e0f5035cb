"""The lines of a dataset's files, read from the disk one at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """One non-blank line of a dataset: its place for messages, its position among the rows, its bytes, and where in
    which file those begin."""

    place: str
    position: int
    data: bytes
    file: Path = Path()
    start: int = 0


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
            start = 0
            for number, raw in enumerate(file, start=1):
                data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                if data.strip():
                    begin = start + len(raw) - len(data)
                    yield Line(place(number, shard, len(paths)), position, data.rstrip(b"\r\n"), path, begin)
                    position += 1
                start += len(raw)


class LineIndex:
    """Where lines stand, three numbers each: a line is read again when it is asked for, however many there are."""

    def __init__(self) -> None:
        self._files: list[Path] = []
        self._places = array("q")

    def __len__(self) -> int:
        return len(self._places) // 3

    def add(self, line: Line) -> None:
        """Note a line; those of one file come together."""
        if not self._files or self._files[-1] != line.file:
            self._files.append(line.file)
        self._places.extend((len(self._files) - 1, line.start, len(line.data)))

    def data(self, at: int) -> bytes:
        """The bytes of the line that was noted as number `at`, from 0."""
        file, start, length = self._places[3 * at : 3 * at + 3]
        with self._files[file].open("rb") as opened:
            opened.seek(start)
            return opened.read(length)
