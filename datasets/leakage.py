"""Which rows to train on ask what a row to judge by asks: exactly, or nearly, by the shingles they share. Pure.

Two prompts are the same where they differ in case, spacing or composition only. They are near where of all runs of
three words that either holds, at least NEAR are in both, or of all pairs of characters where both are short: a word
changed in the middle leaves few runs of a short prompt. System messages do not count for that, because rows of one task
share them, and of a long message only its ends do.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from datasets.prompts import Asked
from datasets.rows import Row

WORDS = 3
SHORT_WORDS = 24
"""Of a prompt with more, a word changed anywhere leaves enough runs."""
NEAR = 2 / 3
LISTED = 20
MOST_HOLDERS = 64
"""A shingle that more evaluation rows than this share says nothing about which of them is meant."""
CANDIDATES = 4

Shingle = int  # the hash of some words, of this process only


class Judged:
    """The rows to judge by, ready to be looked up. Holds every prompt's digest and shingles, and of a short one its
    words."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.by_key: dict[bytes, int] = {}
        self._shingles: dict[int, set[Shingle]] = {}
        self._short: dict[int, Sequence[str]] = {}
        self._holders: dict[Shingle, int | list[int]] = {}  # most shingles have one; a list each would cost twice

    def add(self, position: int, row: Row) -> None:
        """Take in a row; of rows that ask the same the first stands for all."""
        self.num_rows += 1
        asked = Asked(row)
        if self.by_key.setdefault(asked.key, position) != position:
            return
        words = asked.words()
        shingles = self._shingles[position] = set(shingles_of(words))
        if len(words) <= SHORT_WORDS:
            self._short[position] = words
        for shingle in shingles.union(all_but_one(words)):
            held = self._holders.setdefault(shingle, position)
            if isinstance(held, list):
                held.append(position)
            elif held != position:
                self._holders[shingle] = [held, position]

    def nearest(self, asked: Asked) -> tuple[int, float] | None:
        """The position of the nearest row that is near enough, and how near, up to 1."""
        words = asked.words()
        own = set(shingles_of(words))
        known = self._holders.keys() & own.union(all_but_one(words))
        if not known or (len(words) > SHORT_WORDS and len(known) < NEAR * len(own)):
            return None  # of a long prompt that many runs would have to be in the other
        shared: Counter[int] = Counter()
        for shingle in known:
            held = self._holders[shingle]
            if isinstance(held, int):
                shared[held] += 1
            elif len(held) <= MOST_HOLDERS:
                shared.update(held)
        near = ((position, self._similarity(position, words, own)) for position, _ in shared.most_common(CANDIDATES))
        return max((found for found in near if found[1] >= NEAR), key=lambda found: found[1], default=None)

    def _similarity(self, position: int, words: Sequence[str], own: set[Shingle]) -> float:
        similarity = _share(own, self._shingles[position])
        theirs = self._short.get(position)
        if theirs is None or len(words) > SHORT_WORDS:
            return similarity
        return max(similarity, _share(_pairs(words), _pairs(theirs)))


def _share(ones: set[Any], others: set[Any]) -> float:
    both = len(ones & others)
    return both / (len(ones) + len(others) - both)


def _pairs(words: Sequence[str]) -> set[str]:
    """The pairs of characters that follow each other, the ends of a word among them."""
    text = f" {' '.join(words)} " if max(map(len, words)) > 1 else f" {''.join(words)} "
    return set(map("".join, pairwise(text)))


def all_but_one(words: Sequence[str]) -> list[Shingle]:
    """A short prompt's words, and them less each one: two prompts that differ by a word have one of these in common."""
    if not 0 < len(words) <= SHORT_WORDS:
        return []
    hashes = list(map(hash, words))
    whole = sum(hashes)
    return [whole, *(whole - each for each in hashes if len(hashes) > 1)]


def shingles_of(words: Sequence[str]) -> Iterator[Shingle]:
    """The runs of words of a prompt; all of them as one where they are few, none where there are none."""
    if 0 < len(words) < WORDS:
        return iter([hash(tuple(words))])
    return map(hash, zip(words, words[1:], words[2:], strict=False))


@dataclass
class Matches:
    """Rows to train on that match rows to judge by: how many, of how many, and the first of them."""

    rows: int = 0
    judged: set[int] = field(default_factory=set)
    first: list[dict[str, Any]] = field(default_factory=list)

    def add(self, position: int, judged: int, **more: Any) -> None:
        self.rows += 1
        self.judged.add(judged)
        if len(self.first) < LISTED:
            self.first.append({"position": position, "evaluationPosition": judged, **more})

    def document(self) -> dict[str, Any]:
        return {"rows": self.rows, "evaluationRows": len(self.judged), "first": self.first}


class Overlap:
    """Compares rows to train on, one after the other, with the rows to judge by."""

    def __init__(self, judged: Judged):
        self._judged = judged
        self.read = 0
        self.exact, self.near = Matches(), Matches()

    def add(self, position: int, row: Row) -> None:
        """Compare one row."""
        self.read += 1
        asked = Asked(row)
        same = self._judged.by_key.get(asked.key)
        if same is not None:
            self.exact.add(position, same)
            return
        found = self._judged.nearest(asked)
        if found is not None:
            self.near.add(position, found[0], similarity=round(found[1], 2))

    def state(self) -> dict[str, Any]:
        """What was found so far, as JSON; `restore` goes on from there."""
        return {"read": self.read, **{name: matches.document() | {"judged": sorted(matches.judged)}
                                      for name, matches in (("exact", self.exact), ("near", self.near))}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier `state`."""
        self.read = state["read"]
        self.exact, self.near = (Matches(state[name]["rows"], set(state[name]["judged"]), state[name]["first"])
                                 for name in ("exact", "near"))
