"""The report of an analysis, put together from its stretches, and the file of every row's lengths beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from optimize_child.analysis.chunks import Chunk
from optimize_child.analysis.duplicates import FingerprintFiles, Repeats, find_repeats
from optimize_child.analysis.findings import NAMED_ROWS
from optimize_child.analysis.labels import Labels
from optimize_child.analysis.partials import Store
from optimize_child.reading.lines import place, shard_name
from optimize_child.reading.refusals import RefusedRows, refuse_rows

LENGTHS = "lengths.bin"
LIMITS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
SHARES = {"median": 0.5, "p90": 0.9, "p99": 0.99}
BINS = 40


class Totals:
    """The lengths of all rows, added up a stretch at a time."""

    def __init__(self) -> None:
        self.rows = 0
        self._by_length = np.zeros(1, dtype=np.int64)
        self._over = np.zeros((len(LIMITS), 2), dtype=np.int64)
        self._sums = np.zeros(4, dtype=np.int64)
        self._longest: list[tuple[int, int, int]] = []

    def add(self, lengths: np.ndarray) -> None:
        """The rows of a stretch, in order."""
        tokens = lengths[:, 0]
        counts = np.bincount(tokens, minlength=len(self._by_length))
        counts[: len(self._by_length)] += self._by_length
        self._by_length = counts
        self._over += [[np.count_nonzero(column > limit) for column in lengths.T[:2]] for limit in LIMITS]
        self._sums += lengths.sum(axis=0, dtype=np.int64)
        first = np.argsort(-tokens, kind="stable")[:NAMED_ROWS]
        found = [(-int(tokens[at]), self.rows + int(at), int(lengths[at, 1])) for at in first]
        self._longest = nsmallest(NAMED_ROWS, [*self._longest, *found])
        self.rows += len(tokens)

    @property
    def longest(self) -> int:
        return len(self._by_length) - 1

    def measured(self) -> int:
        """The rows that have a length: those the template renders."""
        return self.rows - int(self._by_length[0])

    def lengths(self) -> dict[str, float]:
        """Of the measured rows. A share's length is the least that so large a share of the rows does not exceed."""
        reached = np.cumsum(self._by_length[1:])
        measured = self.measured()
        shares = {
            name: int(np.searchsorted(reached, share * measured - 1e-9)) + 1 if measured else 0
            for name, share in SHARES.items()
        }
        mean = round(int(self._sums[0]) / measured, 1) if measured else 0.0
        return {**shares, "longest": self.longest, "mean": mean}

    def limits(self) -> list[dict[str, int]]:
        return [
            {"limit": limit, "over": int(over), "overTrimmed": int(trimmed)}
            for limit, (over, trimmed) in zip(LIMITS, self._over, strict=True)
        ]

    def longest_rows(self, place: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
        """The longest rows first, each named by `place`; rows of one length in their order."""
        return [
            {**place(row), "tokens": -tokens, "trimmedTokens": trimmed}
            for tokens, row, trimmed in self._longest
            if tokens
        ]

    def sums(self) -> dict[str, Any]:
        tokens, _, trained, trained_all = map(int, self._sums)
        return {"totalTokens": tokens, "trainedTokens": {"default": trained, "all": trained_all}}

    def histogram(self) -> dict[str, list[int]]:
        """Measured rows by length: bin i holds the lengths from edges[i] up to, not including, edges[i + 1]."""
        shortest = int(np.flatnonzero(self._by_length[1:])[0]) + 1 if self.measured() else 0
        width = -(-(self.longest - shortest + 1) // BINS)
        edges = list(range(shortest, self.longest + width + 1, width))
        counts = np.add.reduceat(self._by_length, edges[:-1]) if shortest else np.zeros(len(edges) - 1, dtype=int)
        return {"edges": edges, "counts": counts.tolist()}

    def suggested(self, context_length: int | None) -> int:
        """The least common limit that holds every row, else the next 1024 above them; at most the context's length."""
        fitting = next((limit for limit in LIMITS if self.longest <= limit), -(-self.longest // 1024) * 1024)
        return min(fitting, context_length or fitting)


class Merged:
    """All stretches of a dataset as one: rows and lines counted from the dataset's start."""

    def __init__(self, store: Store, chunks: Sequence[Chunk], files: int) -> None:
        self._store = store
        self._chunks = chunks
        self._files = files
        self._fingerprints = FingerprintFiles(store.folder)
        self._labels = Labels()
        self._facts = [self._read(chunk) for chunk in chunks]
        self._first_line = self._firsts("lines", by_file=True)
        self._first_row = self._firsts("rows", by_file=False)

    def _read(self, chunk: Chunk) -> dict[str, Any]:
        """A stretch's facts. Its labels are merged at once: those of all stretches would not fit in memory."""
        facts = self._store.facts(chunk.number)
        self._labels.merge(facts.pop("labels"))
        return facts

    def _firsts(self, name: str, *, by_file: bool) -> list[int]:
        firsts, total, file = [], 0, 0
        for chunk, facts in zip(self._chunks, self._facts, strict=True):
            if by_file and chunk.file != file:
                total, file = 0, chunk.file
            firsts.append(total)
            total += facts[name]
        return firsts

    def refuse_bad_rows(self) -> None:
        """Raise JobFailure `bad_row` where lines are no good rows."""
        bad = RefusedRows()
        for chunk, facts in zip(self._chunks, self._facts, strict=True):
            for line, reason in facts["bad"]:
                bad.add(place(self._number(chunk.number, line), chunk.file, self._files), reason)
        bad.add_unnamed(self._sum("badRows") - bad.count)
        refuse_rows(bad, "cannot be measured", "Correct or remove these rows and register the dataset again.")

    def write_rows(self, path: Path) -> Totals:
        """Every row's four numbers at `path`, little endian, row after row, and its fingerprints in files of their
        own; what the lengths add up to."""
        totals = Totals()
        beside = path.with_name(f".{path.name}")
        with beside.open("wb") as file, self._fingerprints as fingerprints:
            for chunk in self._chunks:
                lengths, found = self._store.rows(chunk.number)
                file.write(lengths.astype("<i4").tobytes())
                fingerprints.append(found)
                totals.add(lengths)
        beside.replace(path)
        return totals

    def findings(self) -> dict[str, Any]:
        """The counts and the first findings of all stretches."""
        languages = Counter[str]()
        for facts in self._facts:
            languages.update(facts["languages"])
        return {
            "templateProblems": list(self._named("problems")),
            "templateProblemRows": self._sum("problemRows"),
            "consecutiveAssistant": {
                "rows": self._sum("joinedRows"),
                "separate": self._sum("separateRows"),
                "first": list(self._named("joined")),
            },
            "toolRows": self._sum("toolRows"),
            "labels": self._labels.report(),
            "languages": [
                {"language": code, "rows": rows}
                for code, rows in sorted(languages.items(), key=lambda item: (-item[1], item[0]))
            ],
        }

    def repeats(self, tick: Callable[[], None]) -> dict[str, Any]:
        """Exact and near duplicates, with the first of each; after `write_rows`."""
        found = find_repeats(self._fingerprints, self._sum("rows"), tick)
        return {"exact": found.exact, "near": found.near, "examples": self._examples(found)}

    def _examples(self, found: Repeats) -> list[dict[str, Any]]:
        return [
            {"kind": kind, **self.place(row), "of": self.place(earlier)}
            for kind, pairs in (("exact", found.exact_first), ("near", found.near_first))
            for row, earlier in pairs
        ]

    def place(self, row: int) -> dict[str, Any]:
        """A row by its position among the rows, from 0, and by its line, from 1; of several shards, by its shard."""
        chunk = int(np.searchsorted(self._first_row, row, side="right")) - 1
        line = int(self._store.lines(chunk)[row - self._first_row[chunk]])
        shard = {"shard": shard_name(self._chunks[chunk].file)} if self._files > 1 else {}
        return {"line": self._number(chunk, line), "row": row, **shard}

    def _number(self, chunk: int, line: int) -> int:
        """The number of a line in its file, given its number in its stretch."""
        return self._first_line[chunk] + line + 1

    def _named(self, name: str) -> Iterator[dict[str, Any]]:
        """The first of these findings, each with its place."""
        found = (
            {**self.place(self._first_row[chunk.number] + one["row"]), **one["told"]}
            for chunk, facts in zip(self._chunks, self._facts, strict=True)
            for one in facts[name]
        )
        return islice(found, NAMED_ROWS)

    def _sum(self, name: str) -> int:
        return sum(facts[name] for facts in self._facts)
