"""Reads files of other tools record by record, in constant memory: JSON lines, JSON arrays, CSV, Parquet, folders."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

from datasets.errors import SourceUnreadable
from datasets.importers.layout import ARROW, CSV, data_files
from datasets.lines import MAX_LINE_BYTES, read_lines
from datasets.strict_json import LineRefused, parse_line
from optimize_site.kernel.errors import Problem

CHUNK = 1 << 20
HEAD_BYTES = 48
PACKED = {b"\x1f\x8b": "gunzip -k", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ\x00": "unxz -k", b"BZh": "bunzip2 -k",
          b"PK\x03\x04": "unzip"}
LFS_POINTER = b"version https://git-lfs"
BATCH_ROWS = 256
MAX_CSV_FIELD = MAX_LINE_BYTES
csv.field_size_limit(MAX_CSV_FIELD)


@dataclass(frozen=True)
class Found:
    """A record at its place, from 1; where it cannot be read, `problem` says why. `is_filled`: nulls may be filler."""

    place: int
    value: Any = None
    problem: Problem | None = None
    is_filled: bool = False


def read_records(path: Path, split: str = "") -> Iterator[Found]:
    """The records of a file, or of a folder as Hugging Face lays a dataset out. Raises SourceUnreadable."""
    if split and not path.is_dir():
        raise SourceUnreadable(f"{path} is a file, and a file has no splits.",
                               hint="Leave --split out, or name the dataset's folder.")
    if path.is_dir():
        found = chain.from_iterable(map(_read_file, data_files(path, split)))
        yield from (replace(record, place=place) for place, record in enumerate(found, 1))
    else:
        yield from _read_file(path)


def _read_file(path: Path) -> Iterator[Found]:
    """The records of one file, whose form is told by its first bytes, then by its name."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(0)
            _refuse_stand_in(path, head)
            if head.startswith(b"PAR1"):
                yield from _read_parquet(path)
            elif head.startswith(b"ARROW1") or path.suffix.lower() in ARROW:
                yield from _read_arrow(path, is_stream=not head.startswith(b"ARROW1"))
            elif path.suffix.lower() in CSV:
                yield from _read_csv(file, "\t" if path.suffix.lower() == ".tsv" else "")
            elif _is_lines(path):
                yield from _read_json_lines(file)
            else:
                yield from _read_json_stream(file)
    except OSError as error:
        raise SourceUnreadable(f"{path} could not be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SourceUnreadable(f"{path} is not UTF-8 text.",
                               hint="Convert it: `iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW`.") from error


def _refuse_stand_in(path: Path, head: bytes) -> None:
    """Raises SourceUnreadable where a file is packed, or only says where the data is."""
    unpack = next((command for magic, command in PACKED.items() if head.startswith(magic)), "")
    if unpack:
        raise SourceUnreadable(f"{path} is packed, and only unpacked files are read.",
                               hint=f"Unpack it first: `{unpack} {path}`.")
    if head.startswith(LFS_POINTER):
        raise SourceUnreadable(f"{path} is a pointer of Git LFS, without the data.",
                               hint="Get the data: `git lfs pull` in the folder.")


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


# JSON ----------------------------------------------------------------------------------------------------------------


def _is_lines(path: Path) -> bool:
    """Whether the first line that is not blank holds a whole JSON object."""
    with path.open("rb") as file:
        first = next((line for line in read_lines(_chunks(file)) if not line.is_blank), None)
    if first is None or first.is_too_long or first.data.lstrip().startswith(b"["):
        return False
    return _is_object(first.data) or (path.suffix.lower() != ".json" and first.data.strip() != b"{")


def _is_object(data: bytes) -> bool:
    try:
        return isinstance(parse_line(data), dict)
    except LineRefused:
        return False


def _read_json_lines(file: IO[bytes]) -> Iterator[Found]:
    for line in read_lines(_chunks(file)):
        if line.is_too_long:
            yield Found(line.number, None, Problem("", "line_too_long", "The line is longer than "
                                                   f"{MAX_LINE_BYTES >> 20} MiB."))
        elif not line.is_blank:
            yield _parsed(line.number, line.data)


def _parsed(place: int, data: bytes) -> Found:
    try:
        return Found(place, parse_line(data))
    except LineRefused as error:
        return Found(place, None, error.problem)


def _read_json_stream(file: IO[bytes]) -> Iterator[Found]:
    """The elements of one array, or objects spread over several lines; only one of them is held."""
    for place, text in enumerate(_values(io.TextIOWrapper(file, "utf-8-sig")), 1):
        yield _parsed(place, text.encode("utf-8", "surrogatepass"))


def _values(text: IO[str]) -> Iterator[str]:
    decoder = json.JSONDecoder()
    held, is_first, is_array, is_over = "", True, False, False
    while True:
        held = held.lstrip(" \t\r\n,") if not is_first else held.lstrip()
        if is_first and held.startswith("["):
            held, is_array = held[1:], True
        is_first = is_first and not held
        if is_array and held.startswith("]"):
            _refuse_more(held[1:], text)
            return
        if is_over and not held:
            if is_array:
                raise SourceUnreadable("The file is cut short: it opens an array that does not end.",
                                       hint="Get the whole file; `jq . FILE` shows where it ends.")
            return
        try:
            _, end = decoder.raw_decode(held) if held else (None, 0)
        except (ValueError, RecursionError) as error:
            if is_over or len(held) > MAX_LINE_BYTES:
                raise SourceUnreadable("The file is no JSON: a value neither ends nor goes on after "
                                       f"{held[:40]!r}.", hint="Check it: `jq . FILE`.") from error
            end = 0
        if end and (is_over or end < len(held)):
            yield held[:end]
            held, is_first = held[end:], False
            continue
        more = text.read(CHUNK)
        is_over = not more
        held += more


def _refuse_more(held: str, text: IO[str]) -> None:
    """Raises SourceUnreadable where anything but space follows an array."""
    while not held.strip():
        held = text.read(CHUNK)
        if not held:
            return
    raise SourceUnreadable(f"The file goes on after its array with {held.strip()[:40]!r}.",
                           hint="Put all records into one array: `jq -s add FILE`.")


# Tables --------------------------------------------------------------------------------------------------------------


def _read_csv(file: IO[bytes], delimiter: str) -> Iterator[Found]:
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    first = text.readline()
    text.seek(0)
    delimiter = delimiter or max(",;\t", key=first.count)
    reader = csv.DictReader(text, delimiter=delimiter, strict=True)
    try:
        names = list(reader.fieldnames or [])
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise SourceUnreadable(f"The header names the column {repeated!r} twice.",
                                   hint="Give each column a name of its own.")
        for place, row in enumerate(reader, 1):
            if None in row or None in row.values():
                yield Found(place, None, Problem("", "columns_differ", "The record has another number of values than "
                                                 f"the header, which names {len(names)} columns."))
            else:
                yield Found(place, row)
    except csv.Error as error:
        raise SourceUnreadable(f"The CSV breaks off at line {reader.line_num}: {error}.") from error


def _read_parquet(path: Path) -> Iterator[Found]:
    import pyarrow
    from pyarrow.parquet import ParquetFile  # a large library, of use here only

    try:
        with ParquetFile(path) as opened:
            yield from _filled(opened.iter_batches(BATCH_ROWS, use_threads=False))
    except pyarrow.ArrowException as error:
        raise SourceUnreadable(f"{path} is no Parquet that can be read: {str(error).splitlines()[0]}.") from error


def _read_arrow(path: Path, *, is_stream: bool) -> Iterator[Found]:
    import pyarrow

    try:
        with pyarrow.memory_map(str(path)) as mapped:
            opened = pyarrow.ipc.open_stream(mapped) if is_stream else pyarrow.ipc.open_file(mapped)
            yield from _filled(iter(opened) if is_stream else map(opened.get_batch, range(opened.num_record_batches)))
    except pyarrow.ArrowException as error:
        raise SourceUnreadable(f"{path} is no Arrow file that can be read: {str(error).splitlines()[0]}.") from error


def _filled(batches: Iterator[Any]) -> Iterator[Found]:
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    return (Found(place, row, is_filled=True) for place, row in enumerate(rows, 1))
