"""Cuts a stream of bytes into lines: only LF ends one, and no line is held beyond a limit."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_LINE_BYTES = 8 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its LF, a trailing CR, or the file's byte order mark; of one too long only the beginning."""

    number: int
    data: bytes
    is_too_long: bool = False

    @property
    def is_blank(self) -> bool:
        return not self.data.strip(b" \t\r")


class LineSplitter:
    """Gives the lines of a stream as their last byte arrives; holds at most MAX_LINE_BYTES of an unfinished one."""

    def __init__(self) -> None:
        self.number = 0
        self.has_byte_order_mark = False
        self.num_carriage_returns = 0
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._is_too_long = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that end in this chunk."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._hold(piece)
            yield self._line()
        self._hold(rest)

    def finish(self) -> Iterator[Line]:
        """The last line, where the file does not end with LF."""
        if self._held_bytes:
            yield self._line()

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._held_bytes += len(piece)
        if self._held_bytes <= MAX_LINE_BYTES:
            self._held.append(piece)
        elif not self._is_too_long:
            self._is_too_long = True
            self._held = [b"".join([*self._held, piece])[:HEAD_BYTES]]

    def _line(self) -> Line:
        self.number += 1
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        is_too_long = self._is_too_long
        self._held, self._held_bytes, self._is_too_long = [], 0, False
        if self.number == 1 and data.startswith(BYTE_ORDER_MARK):
            self.has_byte_order_mark = True
            data = data[len(BYTE_ORDER_MARK):]
        if data.endswith(b"\r"):
            self.num_carriage_returns += 1
            data = data[:-1]
        return Line(self.number, data, is_too_long)


def read_lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Every line of a stream."""
    splitter = LineSplitter()
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.finish()
