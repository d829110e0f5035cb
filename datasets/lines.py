"""Cuts a stream of bytes into lines: only LF ends one, and no line is held beyond a limit."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_LINE_BYTES = 8 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEAD_BYTES = 64
BLANK = b" \t\r"
"""What a line holds that is no row: JSON knows no other space within a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its LF, a trailing CR, or the file's byte order mark; of one too long only the beginning."""

    number: int
    data: bytes
    is_too_long: bool = False

    @property
    def is_blank(self) -> bool:
        return not self.data.strip(BLANK)


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines that ended in one piece of a stream, numbered on from `first`, without their LF but with all else.

    Of a line that is longer than MAX_LINE_BYTES only the beginning is there; `too_long` holds the places of such.
    """

    first: int
    lines: list[bytes]
    too_long: frozenset[int] = frozenset()
    has_carriage_return: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether no line holds a row; told at once, because a file may hold a great many blank lines."""
        return not (self.too_long or self.lines[0].strip(BLANK) or b"".join(self.lines).strip(BLANK))


class LineBatches:
    """Gives the lines of a stream as they end, those of a chunk together; holds at most MAX_LINE_BYTES of one."""

    def __init__(self) -> None:
        self._next = 1
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._holds_carriage_return = False

    def feed(self, chunk: bytes) -> Batch | None:
        """The lines that end in this chunk."""
        *lines, rest = chunk.split(b"\n")
        has_carriage_return = b"\r" in chunk
        batch = None
        if lines:
            self._hold(lines[0])
            first, is_too_long = self._taken()
            lines[0] = first
            batch = self._batch(lines, is_too_long, has_carriage_return or self._holds_carriage_return)
            self._holds_carriage_return = False
        self._hold(rest)
        self._holds_carriage_return |= has_carriage_return
        return batch

    def finish(self) -> Batch | None:
        """The last line, where the stream does not end with LF."""
        if not self._held_bytes:
            return None
        line, is_too_long = self._taken()
        return self._batch([line], is_too_long, self._holds_carriage_return)

    def _batch(self, lines: list[bytes], is_first_too_long: bool, has_carriage_return: bool) -> Batch:
        too_long = {0} if is_first_too_long else set()
        for place, line in enumerate(lines) if max(map(len, lines)) > MAX_LINE_BYTES else ():
            if len(line) > MAX_LINE_BYTES:
                lines[place] = line[:HEAD_BYTES]
                too_long.add(place)
        self._next += len(lines)
        return Batch(self._next - len(lines), lines, frozenset(too_long), has_carriage_return)

    def _hold(self, piece: bytes) -> None:
        self._held_bytes += len(piece)
        if self._held_bytes <= MAX_LINE_BYTES:
            self._held.append(piece)
        else:
            self._held = [b"".join([*self._held, piece[:HEAD_BYTES]])[:HEAD_BYTES]]

    def _taken(self) -> tuple[bytes, bool]:
        """The line that was held, and whether it is only the beginning of one too long."""
        line = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        is_too_long = self._held_bytes > MAX_LINE_BYTES
        self._held, self._held_bytes = [], 0
        return line, is_too_long


def read_batches(chunks: Iterable[bytes]) -> Iterator[Batch]:
    """Every line of a stream, those of a chunk together."""
    batches = LineBatches()
    for chunk in chunks:
        batch = batches.feed(chunk)
        if batch is not None:
            yield batch
    batch = batches.finish()
    if batch is not None:
        yield batch


def read_lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Every line of a file, one by one."""
    for batch in read_batches(chunks):
        yield from lines_of(batch)


def lines_of(batch: Batch) -> Iterator[Line]:
    """The lines that ended together, one by one."""
    for place, data in enumerate(batch.lines):
        number = batch.first + place
        yield Line(number, bare(data, is_first=number == 1), place in batch.too_long)


def bare(data: bytes, *, is_first: bool) -> bytes:
    """A line without a trailing CR and, where it is a file's first, without the byte order mark."""
    if is_first:
        data = data.removeprefix(BYTE_ORDER_MARK)
    return data.removesuffix(b"\r")
