"""The rows of a registered dataset by position, wherever among its objects and however far in they lie."""

import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from datasets.errors import RowsGone, RowUnknown
from datasets.formats.prepared import FORMAT as PREPARED
from datasets.models import ExampleSet
from datasets.parquet_rows import read_tokens
from datasets.row_index import BEGINNING, Place, RowIndex, open_index, read_rows, rows_in
from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.conf import home

MAX_SAMPLED = 16


class StoredRow(NamedTuple):
    """A row as it is stored: its position in the dataset (from 0), its object, its line there (from 1), its bytes.

    A prepared row has no line; its bytes are the JSON of its columns.
    """

    position: int
    path: str
    line: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """One object of rows: the position of its first row, and how many it holds."""

    shard: dict[str, Any]
    first: int
    num_rows: int

    @property
    def file(self) -> Path:
        return blob_path(self.shard["sha256"])


def parts_of(examples: ExampleSet) -> list[Part]:
    """The objects that hold the rows, in order."""
    parts, first = [], 0
    for shard in examples.shards:
        parts.append(Part(shard, first, shard["examples"]))
        first += shard["examples"]
    return parts


def rows_from(examples: ExampleSet, position: int = 0) -> Iterator[StoredRow]:
    """The rows from a position on; nothing before it is read but a few hundred rows. Raises RowsGone."""
    for part in parts_of(examples):
        if part.first + part.num_rows > position:
            yield from rows_of_part(examples, part, max(0, position - part.first))


def rows_of_part(examples: ExampleSet, part: Part, start: int = 0) -> Iterator[StoredRow]:
    """The rows of one object from its own row `start` on. Raises RowsGone."""
    path = part.shard["path"]
    try:
        if examples.format == PREPARED:
            for row, data in read_tokens(part.file, start):
                yield StoredRow(part.first + row, path, None, data)
            return
        begin = index_of(part).near(start) if start else BEGINNING
        for row, line, data in read_rows(part.file, begin):
            if row >= start:
                yield StoredRow(part.first + row, path, line, data)
    except FileNotFoundError as error:
        raise _gone(path) from error


class Block(NamedTuple):
    """Some hundred rows in one piece: the bytes they were read from, and the way to them one by one."""

    data: bytes
    rows: Iterator[StoredRow]
    end: int
    """The position behind the last of them, at the most."""


def blocks_from(examples: ExampleSet, position: int = 0) -> Iterator[Block]:
    """The rows of a dataset of lines from a position on, block by block. Raises RowsGone."""
    for part in parts_of(examples):
        if part.first + part.num_rows > position:
            try:
                yield from _blocks(part, max(0, position - part.first))
            except FileNotFoundError as error:
                raise _gone(part.shard["path"]) from error


def _blocks(part: Part, start: int) -> Iterator[Block]:
    spans = list(index_of(part).spans_from(start))
    ends = [place.row for place, _ in spans[1:]] + [part.num_rows]
    with part.file.open("rb") as file:
        file.seek(spans[0][0].offset)
        for (place, size), end in zip(spans, ends, strict=True):
            data = file.read(size)
            yield Block(data, _rows_of(part, place, data, start), part.first + end)


def _rows_of(part: Part, place: Place, data: bytes, start: int) -> Iterator[StoredRow]:
    for row, line, found in rows_in(io.BytesIO(data), place):
        if row >= start:
            yield StoredRow(part.first + row, part.shard["path"], line, found)


def sampled_rows(examples: ExampleSet, max_rows: int, max_bytes: int) -> Iterator[StoredRow]:
    """All rows where they are within both limits, else the leading ones, of up to MAX_SAMPLED evenly spaced objects.

    Raises RowsGone.
    """
    parts = parts_of(examples)
    if examples.num_examples > max_rows or _size(parts) > max_bytes:
        spaced = [index * len(parts) // MAX_SAMPLED for index in range(MAX_SAMPLED)]
        parts = parts if len(parts) <= MAX_SAMPLED else [parts[index] for index in spaced]
        max_rows, max_bytes = max(1, max_rows // len(parts)), max_bytes // len(parts)
    for part in parts:
        yield from _leading(rows_of_part(examples, part), max_rows, max_bytes)


def _leading(rows: Iterator[StoredRow], max_rows: int, max_bytes: int) -> Iterator[StoredRow]:
    for row in islice(rows, max_rows):
        max_bytes -= len(row.data)
        if max_bytes < 0:
            return
        yield row


def _size(parts: list[Part]) -> int:
    return sum(part.shard["bytes"] for part in parts)


def row_at(examples: ExampleSet, position: int) -> StoredRow:
    """One row. Raises RowUnknown where there is none, RowsGone."""
    found = next(rows_from(examples, position), None) if position >= 0 else None
    if found is None:
        raise RowUnknown(f"There is no row {position}; the dataset has {examples.num_examples:,} rows.",
                         hint=f"Positions go from 0 to {examples.num_examples - 1}.")
    return found


def index_of(part: Part) -> RowIndex:
    """The index of an object's rows, made now where there is none. Raises FileNotFoundError."""
    return open_index(part.file, index_path(part.shard["sha256"]))


def index_path(sha256: str) -> Path:
    """Where the index of a blob lies."""
    return home() / "row-index" / sha256


def forget_indexes(blobs: Collection[str]) -> None:
    """Remove the indexes of blobs that are no more."""
    for sha256 in blobs:
        index_path(sha256).unlink(missing_ok=True)


def _gone(path: str) -> RowsGone:
    return RowsGone(f"The bytes of {path} are not on this box's disk.",
                    hint="Restore them from a backup, or register the file again.")
