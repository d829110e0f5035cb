"""Rows that repeat an earlier row, exactly or nearly, counted in a bounded amount of memory.

The fingerprints of all rows lie in flat files. Equal keys are found by sorting; the keys are spread over so many parts
that the different keys of each fit in memory, and a file of keys is read once for each part. Where many rows share a
key, those seen are let go but for its first and its last one: what comes is compared with these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from heapq import nsmallest
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from optimize_child.analysis.fingerprints import BANDS, HASHES, Fingerprints

# A near duplicate shares at least this part of its minima with an earlier row: an estimate of the shared shingles.
NEAR_SHARE = 0.8
PART_ROWS = 1 << 19
BLOCK_ROWS = 1 << 18
EXAMPLES = 10
EXACT, NEAR = 1, 2

# Rows in order, and their keys.
Held = tuple[np.ndarray, np.ndarray]
Compare = Callable[[np.ndarray, np.ndarray], Held]


class FingerprintFiles:
    """The fingerprints of all rows in flat files of a folder: written in the rows' order, then read at any place."""

    def __init__(self, folder: Path) -> None:
        self._digests = folder / "part-digests.bin"
        self._minima = folder / "part-minima.bin"
        self._keys = [folder / f"part-keys-{band}.bin" for band in range(BANDS)]
        self.kinds_path = folder / "part-kinds.bin"

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        paths = [self._digests, self._minima, *self._keys]
        self._open = [self._stack.enter_context(path.open("wb")) for path in paths]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def append(self, found: Fingerprints) -> None:
        columns = [found.digests, found.minima, *found.keys.T]
        for file, column in zip(self._open, columns, strict=True):
            file.write(np.ascontiguousarray(column).tobytes())

    def digests(self) -> Iterator[np.ndarray]:
        """The digests of all rows, (n, 2) at a time."""
        return (block.reshape(-1, 2) for block in _blocks(self._digests, "<u8", 2 * BLOCK_ROWS))

    def keys(self, band: int) -> Iterator[np.ndarray]:
        """The keys of all rows in a band, (n,) at a time."""
        return _blocks(self._keys[band], "<u4", BLOCK_ROWS)

    def minima(self, rows: np.ndarray) -> np.ndarray:
        """Those of these rows, (n, HASHES). No more than a block of the file is mapped at once."""
        found = np.empty((len(rows), HASHES), dtype=np.uint8)
        order = np.argsort(rows)
        ends = np.flatnonzero(np.diff(rows[order] // BLOCK_ROWS)) + 1
        for places in np.split(order, ends) if len(rows) else []:
            first, last = int(rows[places[0]]), int(rows[places[-1]])
            shape = (last + 1 - first, HASHES)
            stretch = np.memmap(self._minima, dtype=np.uint8, mode="r", offset=first * HASHES, shape=shape)
            found[places] = stretch[rows[places] - first]
        return found

    def kinds(self, rows: int) -> np.ndarray:
        """One byte a row, zero at first."""
        return np.memmap(self.kinds_path, dtype=np.uint8, mode="w+", shape=(rows,))


def _blocks(path: Path, dtype: str, count: int) -> Iterator[np.ndarray]:
    with path.open("rb") as file:
        while len(block := np.fromfile(file, dtype=dtype, count=count)):
            yield block


@dataclass
class Repeats:
    """How many rows repeat an earlier one exactly, how many others nearly, and the first of each: (row, earlier)."""

    exact: int = 0
    near: int = 0
    exact_first: list[tuple[int, int]] = field(default_factory=list)
    near_first: list[tuple[int, int]] = field(default_factory=list)


def find_repeats(files: FingerprintFiles, rows: int, tick: Callable[[], None]) -> Repeats:
    """Compare all rows; `tick` is called between parts."""
    repeats = Repeats()
    if not rows:
        return repeats
    kinds = files.kinds(rows)
    parts = -(-rows // PART_ROWS)
    for part in range(parts):
        _pass(files.digests(), part, parts, lambda rows, digests: _find_exact(rows, digests, kinds, repeats))
        tick()
    for band in range(BANDS):
        for part in range(parts):
            _pass(files.keys(band), part, parts, lambda rows, keys: _find_near(rows, keys, files, kinds, repeats))
            tick()
    repeats.exact = _count(kinds, EXACT)
    repeats.near = _count(kinds, NEAR)
    return repeats


def _pass(blocks: Iterable[np.ndarray], part: int, parts: int, compare: Compare) -> None:
    """Hand a part's rows to `compare` in their order, with their keys. What it gives back comes again before the rows
    that follow; of a part with many equal keys there are more than are held at once."""
    held, number, start = list[Held](), 0, 0
    for block in blocks:
        keys = block if block.ndim == 1 else block[:, 0]
        places = np.flatnonzero((keys != 0) & ((keys >> 1) % parts == part))
        held.append((places + start, block[places]))
        number, start = number + len(places), start + len(block)
        if number > 2 * PART_ROWS:
            held = [compare(*_joined(held))]
            number = len(held[0][0])
    compare(*_joined(held))


def _joined(held: list[Held]) -> Held:
    rows, keys = zip(*held, strict=True)
    held.clear()
    return np.concatenate(rows), np.concatenate(keys)


def _find_exact(rows: np.ndarray, digests: np.ndarray, kinds: np.ndarray, repeats: Repeats) -> Held:
    """Of the rows of each digest all but the first repeat it; gives the first ones back."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    rows, digests = rows[order], digests[order]
    same = np.flatnonzero((digests[1:] == digests[:-1]).all(axis=1)) + 1
    kinds[rows[same]] = EXACT
    earlier = rows[_leaders(len(rows), same)[same]]
    repeats.exact_first = _first([*repeats.exact_first, *_pairs(rows[same], earlier)])
    return np.delete(rows, same), np.delete(digests, same, axis=0)


def _find_near(
    rows: np.ndarray, keys: np.ndarray, files: FingerprintFiles, kinds: np.ndarray, repeats: Repeats
) -> Held:
    """A row is compared with the first row that has its key, and with the one before it; gives the first and the last
    row of each key back."""
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    same = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    leaders = _leaders(len(rows), same)
    later = same[kinds[rows[same]] != EXACT]
    for start in range(0, len(later), BLOCK_ROWS):
        some = later[start : start + BLOCK_ROWS]
        own = files.minima(rows[some])
        for others in (leaders[some], some - 1):
            alike = (own == files.minima(rows[others])).sum(axis=1) >= NEAR_SHARE * HASHES
            found = rows[some[alike]]
            kinds[found] = NEAR
            repeats.near_first = _first([*repeats.near_first, *_pairs(found, rows[others[alike]])])
    between = np.intersect1d(same, same - 1, assume_unique=True)
    return np.delete(rows, between), np.delete(keys, between)


def _leaders(rows: int, same: np.ndarray) -> np.ndarray:
    """For each place of a sorted list, the place of the first that equals it; `same` are the places that equal the one
    before them."""
    places = np.arange(rows)
    places[same] = 0
    return np.maximum.accumulate(places)


def _pairs(rows: np.ndarray, earlier: np.ndarray) -> Iterator[tuple[int, int]]:
    """The first pairs, by row."""
    first = np.lexsort((earlier, rows))[: 2 * EXAMPLES]
    return zip(rows[first].tolist(), earlier[first].tolist(), strict=True)


def _first(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The first rows, each with the earliest row it is like."""
    found: dict[int, int] = {}
    for row, earlier in pairs:
        found[row] = min(earlier, found.get(row, earlier))
    return nsmallest(EXAMPLES, found.items())


def _count(kinds: np.ndarray, kind: int) -> int:
    return sum(
        int(np.count_nonzero(kinds[start : start + BLOCK_ROWS] == kind)) for start in range(0, len(kinds), BLOCK_ROWS)
    )
