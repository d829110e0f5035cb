"""A dataset cut into stretches of whole lines, each read on its own from the disk.

The cut depends on the files' sizes alone, so every attempt and every number of processes measures the same stretches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SMALLEST_BYTES = 4 << 20
MOST_CHUNKS = 4096
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Chunk(NamedTuple):
    """The lines of file `file` whose first byte lies from `start` up to `end`."""

    number: int
    file: int
    start: int
    end: int


def cut(files: Sequence[Path], *, smallest: int = SMALLEST_BYTES) -> list[Chunk]:
    """Stretches of about `smallest` bytes, or of more where there would be too many of them."""
    sizes = [path.stat().st_size for path in files]
    step = max(smallest, sum(sizes) // MOST_CHUNKS)
    places = [(file, start) for file, size in enumerate(sizes) for start in range(0, size, step)]
    return [Chunk(number, file, start, min(start + step, sizes[file])) for number, (file, start) in enumerate(places)]


def lines_of(path: Path, chunk: Chunk) -> Iterator[tuple[int, bytes]]:
    """The lines of a stretch, blank ones too, each with its number in it from 0. Only LF ends a line."""
    with path.open("rb") as file:
        position = _first_line(file, chunk.start)
        number = 0
        while position < chunk.end and (raw := file.readline()):
            data = raw.removeprefix(BYTE_ORDER_MARK) if position == 0 else raw
            yield number, data.rstrip(b"\r\n")
            position += len(raw)
            number += 1


def _first_line(file, start: int) -> int:
    """Move to the first line that begins at `start` or later; its position."""
    if start == 0:
        return 0
    file.seek(start - 1)
    return start - 1 + len(file.readline())
