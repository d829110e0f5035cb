"""Finds row N of a file of lines at once: sparse marks and a checksum a row, kept beside the file's bytes on disk.

An index is derived: it is made in one pass in constant memory when it is first needed, and made again where it is
missing or was written by another version. Blank lines are no rows.
"""

import struct
import tempfile
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple

from datasets.lines import BLANK, bare

MAGIC = b"rows-1\0\0"
HEADER = struct.Struct("<8sQQ")  # magic, rows, marks
MARK = struct.Struct("<QQQ")  # rows before, lines before, byte offset
MARK_BYTES = 128 * 1024
BLOCK_ROWS = 1 << 16
READ_BYTES = 1 << 20


class Place(NamedTuple):
    """A row's line in its file: how many rows and lines come before it, and its first byte."""

    row: int
    line: int
    offset: int


class FileRow(NamedTuple):
    """A row of a file: its number among the rows (from 0), its line (from 1) and its bytes."""

    row: int
    line: int
    data: bytes


class RowIndex:
    """The index of one file, read from disk. Raises FileNotFoundError, ValueError where it is no index of ours."""

    def __init__(self, path: Path):
        self.path = path
        with path.open("rb") as file:
            head = file.read(HEADER.size)
            if len(head) < HEADER.size:
                raise ValueError(f"{path} is cut off.")
            magic, self.num_rows, num_marks = HEADER.unpack(head)
            file.seek(HEADER.size + 4 * self.num_rows)
            marks = file.read()
        if magic != MAGIC or len(marks) != num_marks * MARK.size:
            raise ValueError(f"{path} is no row index of this version.")
        self._marks = [Place(*mark) for mark in MARK.iter_unpack(marks)]

    def near(self, row: int) -> Place:
        """The last marked place at or before a row."""
        return self._marks[bisect_right(self._marks, row, key=lambda mark: mark.row) - 1]

    def spans_from(self, row: int) -> Iterator[tuple[Place, int]]:
        """The marked places from the last at or before a row on, each with how many bytes lie up to the next; -1: all
        that are left."""
        first = self._marks.index(self.near(row))
        for place, following in zip_longest(self._marks[first:], self._marks[first + 1:]):
            yield place, following.offset - place.offset if following is not None else -1

    def checksums(self) -> Iterator[tuple[int, "array[int]"]]:
        """The rows' checksums, a block at a time, each with the row it begins at."""
        with self.path.open("rb") as file:
            file.seek(HEADER.size)
            for first in range(0, self.num_rows, BLOCK_ROWS):
                block = array("I")
                block.frombytes(file.read(4 * min(BLOCK_ROWS, self.num_rows - first)))
                yield first, block

    def rows_like(self, wanted: Collection[int]) -> Iterator[tuple[int, int]]:
        """Every row whose checksum is one of `wanted`, in order: its number and its checksum."""
        looked_for = set(wanted)
        for first, block in self.checksums():
            if not looked_for.isdisjoint(block):
                yield from ((first + at, found) for at, found in enumerate(block) if found in looked_for)


def checksum(row: bytes) -> int:
    """What rows of the same bytes share. Others may share it too, one in four thousand million."""
    return zlib.crc32(row)


def open_index(file: Path, index: Path) -> RowIndex:
    """The index of a file, made now where it is missing or unusable. Raises FileNotFoundError for the file."""
    try:
        return RowIndex(index)
    except (FileNotFoundError, ValueError):
        build_index(file, index)
        return RowIndex(index)


def build_index(file: Path, index: Path) -> None:
    """Read a file once and write its index; whoever looks meanwhile sees the old one or none."""
    index.parent.mkdir(parents=True, exist_ok=True)
    with file.open("rb", buffering=READ_BYTES) as source, tempfile.NamedTemporaryFile(
            dir=index.parent, prefix=".index-", delete=False) as out:
        try:
            _write(source, out)
            out.flush()
            Path(out.name).replace(index)
        finally:
            Path(out.name).unlink(missing_ok=True)


def _write(source: IO[bytes], out: IO[bytes]) -> None:
    out.write(HEADER.pack(MAGIC, 0, 0))
    marks, sums = [(0, 0, 0)], array("I")
    rows = offset = 0
    for lines, line in enumerate(source):
        if offset - marks[-1][2] >= MARK_BYTES:
            marks.append((rows, lines, offset))
        row = bare(line.removesuffix(b"\n"), is_first=not lines)
        if row.strip(BLANK):
            sums.append(checksum(row))
            rows += 1
            if len(sums) == BLOCK_ROWS:
                out.write(sums.tobytes())
                sums = array("I")
        offset += len(line)
    out.write(sums.tobytes() + b"".join(MARK.pack(*mark) for mark in marks))
    out.seek(0)
    out.write(HEADER.pack(MAGIC, rows, len(marks)))


def read_rows(file: Path, start: Place) -> Iterator[FileRow]:
    """The rows of a file from a place on. Raises FileNotFoundError."""
    with file.open("rb", buffering=READ_BYTES) as source:
        source.seek(start.offset)
        yield from rows_in(source, start)


def rows_in(lines: Iterable[bytes], start: Place) -> Iterator[FileRow]:
    """The rows among the lines that stand from a place of a file on."""
    number = start.row
    for line, data in enumerate(lines, start.line):
        row = bare(data.removesuffix(b"\n"), is_first=line == 0)
        if row.strip(BLANK):
            yield FileRow(number, line + 1, row)
            number += 1


BEGINNING = Place(0, 0, 0)
