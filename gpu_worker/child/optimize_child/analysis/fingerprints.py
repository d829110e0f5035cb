"""Fingerprints by which rows are found to repeat: a digest of the rendering, and MinHash over what the row says.

The words of a row are those of its messages but the system prompt, in lower case; three consecutive words are a
shingle. HASHES minima over the shingles estimate the share of shingles that two rows have in common. The minima of a
band together are one key, and rows that share a key are compared. Nothing is drawn at random: the same rows have the
same fingerprints on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

HASHES = 32
BANDS = 8
LEAST_WORDS = 8
# Writing without spaces gives very long words: its characters are the words then.
LONGEST_WORD_BYTES = 24

_MULTIPLY = np.random.RandomState(20240726).randint(1, 2**63, size=HASHES + 4, dtype=np.uint64) | np.uint64(1)


class Fingerprints(NamedTuple):
    """Of rows in order: the digest's two halves (n, 2) uint64, band keys (n, BANDS) uint32, minima (n, HASHES) uint8.

    A row with fewer than LEAST_WORDS words has the keys 0: it is compared with none.
    """

    digests: np.ndarray
    keys: np.ndarray
    minima: np.ndarray


NOTHING = Fingerprints(
    np.empty((0, 2), dtype=np.uint64), np.empty((0, BANDS), dtype=np.uint32), np.empty((0, HASHES), dtype=np.uint8)
)


def digest(texts: Sequence[str]) -> bytes:
    """128 bits of a row's rendered conversations."""
    return hashlib.blake2b("\0".join(texts).encode(errors="replace"), digest_size=16).digest()


def words_of(text: str) -> list[bytes]:
    """The words of a text in lower case; of writing without spaces, its characters."""
    data = text.lower().encode(errors="replace")
    words = data.split()
    if len(data) > LONGEST_WORD_BYTES * len(words):
        return [sign.encode(errors="replace") for sign in text.lower() if not sign.isspace()]
    return words


def fingerprints(digests: Sequence[bytes], rows: Sequence[Sequence[bytes]]) -> Fingerprints:
    """The fingerprints of some rows, given their digests and their words."""
    if not digests:
        return NOTHING
    halves = np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)
    minima = _minima(rows)
    keys = _keys(minima)
    keys[[len(words) < LEAST_WORDS for words in rows]] = 0
    return Fingerprints(halves, keys, (minima & np.uint64(0xFF)).astype(np.uint8))


def _minima(rows: Sequence[Sequence[bytes]]) -> np.ndarray:
    """(n, HASHES) uint64: the smallest of each hash over the shingles of each row."""
    signs: list[int] = []
    for words in rows:
        signs += map(crc32, words or (b"",))
        # No shingle reaches over a row's end.
        signs += (0, 0)
    codes = np.array(signs, dtype=np.uint64)
    lengths = np.array([len(words) or 1 for words in rows])
    ends = np.cumsum(lengths + 2)
    shingles = _mixed(codes[:-2] * _MULTIPLY[-1] + codes[1:-1] * _MULTIPLY[-2] + codes[2:] * _MULTIPLY[-3])
    kept = np.ones(len(codes), dtype=bool)
    kept[ends - 1] = kept[ends - 2] = False
    shingles = shingles[kept[:-2]]
    starts = np.cumsum(lengths) - lengths
    columns = [np.minimum.reduceat(shingles * factor, starts) for factor in _MULTIPLY[:HASHES]]
    # A minimum's high bits are nearly always zeros: mix, so that any eight of its bits tell it from another.
    return _mixed(np.stack(columns, axis=1))


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(32))) * _MULTIPLY[-4]
    return values ^ (values >> np.uint64(29))


def _keys(minima: np.ndarray) -> np.ndarray:
    """(n, BANDS) uint32, never 0: the minima of a band as one number."""
    width = HASHES // BANDS
    keys = np.zeros((len(minima), BANDS), dtype=np.uint64)
    for place in range(width):
        keys = _mixed(keys * _MULTIPLY[place] + minima[:, place::width])
    return (keys >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
