"""Rows that repeat an earlier row, exactly or nearly, counted in a bounded amount of memory.

The fingerprints of all rows lie in flat files. Equal keys are found by sorting; the keys are spread over so many parts
that each part fits in memory, and a file of keys is read once for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
PART_ROWS = 1_000_000
BLOCK_ROWS = 1 << 20
EXAMPLES = 10
EXACT, NEAR = 1, 2


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

    def digests(self, rows: int) -> np.ndarray:
        return np.memmap(self._digests, dtype="<u8", mode="r", shape=(rows, 2))

    def minima(self, rows: int) -> np.ndarray:
        return np.memmap(self._minima, dtype=np.uint8, mode="r", shape=(rows, HASHES))

    def keys(self, band: int, rows: int) -> np.ndarray:
        return np.memmap(self._keys[band], dtype="<u4", mode="r", shape=(rows,))

    def kinds(self, rows: int) -> np.ndarray:
        """One byte a row, zero at first."""
        return np.memmap(self.kinds_path, dtype=np.uint8, mode="w+", shape=(rows,))


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
    for places in _parts(files.digests(rows)[:, 0]):
        _find_exact(places, files.digests(rows)[places], kinds, repeats)
        tick()
    for band in range(BANDS):
        keys = files.keys(band, rows)
        for places in _parts(keys):
            _find_near(places, keys[places], files.minima(rows), kinds, repeats)
            tick()
    repeats.exact = _count(kinds, EXACT)
    repeats.near = _count(kinds, NEAR)
    return repeats


def _parts(keys: np.ndarray) -> Iterator[np.ndarray]:
    """The places of the rows whose keys fall into one part, part after part; key 0 is none."""
    parts = -(-len(keys) // PART_ROWS)
    for part in range(parts):
        found = []
        for start in range(0, len(keys), BLOCK_ROWS):
            block = np.asarray(keys[start : start + BLOCK_ROWS])
            found.append(np.flatnonzero((block != 0) & ((block >> 1) % parts == part)) + start)
        yield np.concatenate(found)


def _find_exact(rows: np.ndarray, digests: np.ndarray, kinds: np.ndarray, repeats: Repeats) -> None:
    order = np.lexsort((rows, digests[:, 1], digests[:, 0]))
    rows, digests = rows[order], digests[order]
    same = np.flatnonzero((digests[1:] == digests[:-1]).all(axis=1)) + 1
    kinds[rows[same]] = EXACT
    earlier = rows[_leaders(len(rows), same)[same]]
    repeats.exact_first = _first([*repeats.exact_first, *_pairs(rows[same], earlier)])


def _find_near(rows: np.ndarray, keys: np.ndarray, minima: np.ndarray, kinds: np.ndarray, repeats: Repeats) -> None:
    """A row is compared with the first row that has its key, and with the one before it."""
    order = np.lexsort((rows, keys))
    rows, keys = rows[order], keys[order]
    same = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    leaders = _leaders(len(rows), same)
    same = same[kinds[rows[same]] != EXACT]
    for others in (leaders[same], same - 1):
        later, earlier = _alike(rows[same], rows[others], minima)
        kinds[later] = NEAR
        repeats.near_first = _first([*repeats.near_first, *_pairs(later, earlier)])


def _alike(rows: np.ndarray, others: np.ndarray, minima: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of the pairs that share enough minima."""
    kept = [np.empty(0, dtype=bool)]
    for start in range(0, len(rows), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        kept.append((minima[rows[part]] == minima[others[part]]).sum(axis=1) >= NEAR_SHARE * HASHES)
    alike = np.concatenate(kept)
    return rows[alike], others[alike]


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
