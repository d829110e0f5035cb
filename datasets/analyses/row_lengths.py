"""The lengths of every row that an analysis measured, read from its file a piece at a time.

`lengths.bin` holds four little-endian 32-bit numbers a row, row after row: its tokens, the fewest it reaches with its
oldest turns removed, and the tokens it trains by default and with every assistant turn.
"""

import heapq
import struct
import sys
from array import array
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

NAME = "lengths.bin"
COLUMNS = ("tokens", "trimmed", "trained", "trained_all")
ROW_BYTES = 4 * len(COLUMNS)
PIECE_ROWS = 1 << 16


class LongRow(NamedTuple):
    """A row by its position among the rows, and how many tokens it has."""

    position: int
    tokens: int


class Fit(NamedTuple):
    """How rows fit a limit of tokens: how many are longer, how many of those still are with their oldest turns
    removed, the tokens of the rows that are not longer, and those tokens with the trimmed rows' counted too."""

    rows: int
    over: int
    over_trimmed: int
    tokens: int
    tokens_trimmed: int


class RowLengths:
    """The measured rows of one dataset, or the first `rows` of them. Every call reads the file anew."""

    def __init__(self, path: Path, rows: int | None = None) -> None:
        self._path = path
        size = path.stat().st_size
        if not size or size % ROW_BYTES:
            raise ValueError(f"{path.name} has {size} bytes, which is no whole number of rows.")
        whole = size // ROW_BYTES
        self.rows = whole if rows is None else min(rows, whole)

    def fit(self, limit: int) -> Fit:
        """How the rows fit `limit`."""
        over = over_trimmed = tokens = cut = 0
        for lengths, leasts in self._columns("tokens", "trimmed"):
            tokens += sum(lengths)
            if max(lengths, default=0) <= limit:
                continue
            for length, least in zip(lengths, leasts, strict=True):
                if length > limit:
                    over += 1
                    over_trimmed += least > limit
                    tokens -= length
                    cut += least if least <= limit else 0
        return Fit(self.rows, over, over_trimmed, tokens, tokens + cut)

    def at(self, position: int) -> tuple[int, ...]:
        """The numbers of one row, in the order of COLUMNS. Raises IndexError where there is no such row."""
        if not 0 <= position < self.rows:
            raise IndexError(position)
        with self._path.open("rb") as file:
            file.seek(position * ROW_BYTES)
            return struct.unpack(f"<{len(COLUMNS)}i", file.read(ROW_BYTES))

    def longest(self, number: int, *, over: int, trimmed: bool = False) -> list[LongRow]:
        """The `number` longest rows of more than `over` tokens, longest first, equal ones in the rows' order."""
        lengths = (length for (piece,) in self._columns("trimmed" if trimmed else "tokens") for length in piece)
        long = ((length, -position) for position, length in zip(count(), lengths, strict=False) if length > over)
        return [LongRow(-position, length) for length, position in heapq.nlargest(number, long)]

    def kept(self, limit: int, *, trimmed: bool) -> "array[int]":
        """The lengths of the rows that a run keeps under `limit`, in the rows' order; longer rows at the fewest tokens
        they reach where `trimmed`."""
        kept = array("i")
        for lengths, leasts in self._columns("tokens", "trimmed"):
            found = (min(length, least) if trimmed and length > limit else length
                     for length, least in zip(lengths, leasts, strict=True))
            kept.extend(length for length in found if length <= limit)
        return kept

    def cut(self, limit: int) -> "array[int]":
        """The length of every row, a longer one's as `limit`."""
        return array("i", (min(length, limit) for (piece,) in self._columns("tokens") for length in piece))

    def _columns(self, *names: str) -> Iterator[tuple["array[int]", ...]]:
        places = [COLUMNS.index(name) for name in names]
        for piece in self._pieces():
            yield tuple(piece[place::len(COLUMNS)] for place in places)

    def _pieces(self) -> Iterator["array[int]"]:
        left = self.rows
        with self._path.open("rb") as file:
            while left > 0:
                piece = array("i", file.read(min(left, PIECE_ROWS) * ROW_BYTES))
                if not piece:
                    return
                if sys.byteorder != "little":
                    piece.byteswap()
                left -= len(piece) // len(COLUMNS)
                yield piece

