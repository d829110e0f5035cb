"""Cuts a file of lines into shards: on line boundaries, each as large as fits, the same for the same file and size."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets.errors import DatasetTooLarge, FileDoesNotFit
from datasets.lines import MAX_LINE_BYTES
from optimize_site.kernel.errors import InvalidInput

MEBIBYTE = 1024 * 1024
MAX_SHARDS = 1000
MAX_SHARD_BYTES = 256 * MEBIBYTE
LOOKED_AT = 64 * 1024
UNITS = {"": 1, "b": 1, "k": 1024, "m": MEBIBYTE, "g": 1024 * MEBIBYTE}


class LineTooLong(ValueError):
    """The line that starts at this byte does not end within a shard; it is `size` bytes long with its LF."""

    def __init__(self, start: int, size: int):
        super().__init__(f"a line of {size} bytes at {start}")
        self.start, self.size = start, size


@dataclass(frozen=True)
class Cut:
    """A shard's place in the file it was cut from."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def shard_path(place: int, number: int) -> str:
    """The path of one of `number` shards in a version's listing; a file that was not cut is `examples.jsonl`."""
    return "examples.jsonl" if number == 1 else f"examples-{place:05}.jsonl"


def cut_file(path: Path, shard_bytes: int) -> list[Cut]:
    """The shards of a file, none larger than `shard_bytes`. Raises LineTooLong."""
    with path.open("rb", buffering=0) as file:
        return list(_cuts(file.fileno(), os.fstat(file.fileno()).st_size, shard_bytes))


def _cuts(file: int, size: int, shard_bytes: int) -> Iterator[Cut]:
    start = 0
    while size - start > shard_bytes:
        end = _last_line_end(file, start, start + shard_bytes)
        if end == start:
            raise LineTooLong(start, _line_end(file, start, size) - start)
        yield Cut(start, end)
        start = end
    yield Cut(start, size)


def _last_line_end(file: int, start: int, end: int) -> int:
    """Behind the last LF between two places; `start` where there is none."""
    while end > start:
        begin = max(start, end - LOOKED_AT)
        found = os.pread(file, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def _line_end(file: int, start: int, size: int) -> int:
    """Behind the first LF from a place on; the end of the file where there is none."""
    while start < size and (piece := os.pread(file, LOOKED_AT, start)):
        found = piece.find(b"\n")
        if found >= 0:
            return start + found + 1
        start += len(piece)
    return size


def count_lines(path: Path, end: int) -> int:
    """How many lines end before this byte."""
    lines = at = 0
    with path.open("rb", buffering=0) as file:
        while at < end and (piece := file.read(min(MEBIBYTE, end - at))):
            lines += piece.count(b"\n")
            at += len(piece)
    return lines


def plan_shards(path: Path, stated: int | None, limits: Mapping[str, Any]) -> list[Cut]:
    """How a file is sent to a box with these limits (as `registry info` shows them under `datasets`).

    A file that fits one shard is not cut. Raises FileDoesNotFit, naming the shard size that fits, DatasetTooLarge where
    none does.
    """
    most, size = int(limits["maxShardBytes"]), path.stat().st_size
    wanted = stated or MAX_SHARD_BYTES
    if wanted > most and size > most:
        raise _does_not_fit(path, f"Shards of {shown(wanted)} are larger than this box takes, {shown(most)} at most",
                            _fitting(path, most, limits), limits)
    try:
        cuts = cut_file(path, min(wanted, most))
    except LineTooLong as error:
        raise _line_too_long(path, error, wanted, limits) from error
    if len(cuts) > int(limits["maxShards"]):
        said = f"{path.name} of {shown(size)} makes {len(cuts):,} shards of {shown(wanted)}; a dataset has at most "
        raise _does_not_fit(path, f"{said}{limits['maxShards']:,}", _fitting(path, wanted, limits), limits)
    return cuts


def _fitting(path: Path, least: int, limits: Mapping[str, Any]) -> int | None:
    """A shard size, in whole MiB where it is that large, with which the file fits; None where none does."""
    most, number = int(limits["maxShardBytes"]), int(limits["maxShards"])
    wanted = max(min(least, most), _rounded(-(-path.stat().st_size // number)))
    while wanted <= most:
        try:
            cuts = cut_file(path, wanted)
        except LineTooLong as error:
            wanted = _rounded(error.size)
            continue
        if len(cuts) <= number:
            return wanted
        wanted = _rounded(wanted + 1)
    return None


def _rounded(size: int) -> int:
    step = MEBIBYTE if size > MEBIBYTE else 1024
    return -(-size // step) * step


def _does_not_fit(path: Path, said: str, fitting: int | None, limits: Mapping[str, Any]) -> DatasetTooLarge:
    if fitting is not None:
        return FileDoesNotFit(f"{said}. Nothing was sent.", hint=f"Pass `--shard-size {written(fitting)}`.")
    size, whole = path.stat().st_size, int(limits["maxShards"]) * int(limits["maxShardBytes"])
    if size <= whole:
        return DatasetTooLarge(f"{said}, and one of its lines is longer than that. Nothing was sent.",
                               hint="Raise trainer.datasets.max-bytes in the box's settings.toml, or cut the row.")
    return DatasetTooLarge(f"{said}. {path.name} has {size:,} bytes; {limits['maxShards']:,} shards of "
                           f"{shown(limits['maxShardBytes'])} hold {whole:,} at most. Nothing was sent.",
                           hint="Register it as several datasets.")


def _line_too_long(path: Path, error: LineTooLong, wanted: int, limits: Mapping[str, Any]) -> DatasetTooLarge:
    line = count_lines(path, error.start) + 1
    said = f"Line {line} of {path.name} has {error.size:,} bytes; a shard of {shown(wanted)} cannot hold it"
    if error.size > MAX_LINE_BYTES:
        return DatasetTooLarge(f"{said}, and no line may be longer than {shown(MAX_LINE_BYTES)}. Nothing was sent.",
                               hint="A row is one conversation; cut it into several.")
    return _does_not_fit(path, said, _fitting(path, _rounded(error.size), limits), limits)


def shown(size: int) -> str:
    """Bytes for people."""
    for unit, step in (("GiB", 1024 * MEBIBYTE), ("MiB", MEBIBYTE), ("KiB", 1024)):
        if size >= step:
            return f"{size / step:.1f} {unit}".replace(".0 ", " ")
    return f"{size} bytes"


def written(size: int) -> str:
    """A size as `--shard-size` takes it."""
    for unit, step in (("MiB", MEBIBYTE), ("KiB", 1024)):
        if size % step == 0:
            return f"{size // step}{unit}"
    return str(size)


def parse_size(text: str) -> int:
    """Bytes of `64MiB`, `64M`, `1GiB`, `100000`. Raises InvalidInput."""
    found = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip(), re.IGNORECASE)
    size = int(found[1]) * UNITS[found[2].lower()] if found else 0
    if not size:
        raise InvalidInput(f"{text!r} is no size of a shard.", hint="Write 64MiB, 256MiB or a number of bytes.",
                           code="invalid_shard_size")
    return size
