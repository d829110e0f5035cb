"""What was measured of one stretch of a dataset, kept on the disk so that a killed analysis goes on after it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from optimize_child.analysis.fingerprints import Fingerprints

COLUMNS = ("tokens", "trimmed", "trained", "trained_all")
IDENTITY = "identity.json"


class Partial(NamedTuple):
    """The rows of a stretch in order.

    `lengths` is (n, 4) int32, one column each of COLUMNS, zeros for a row that the template does not render;
    `lines` is (n,) int32, each row's line in the stretch from 0; `facts` are counts and the first findings.
    """

    lengths: np.ndarray
    lines: np.ndarray
    fingerprints: Fingerprints
    facts: dict[str, Any]


class Store:
    """The partial results in a folder. A folder of other work (`identity`) is emptied."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / IDENTITY
        text = json.dumps(identity, sort_keys=True)
        if not path.is_file() or path.read_text() != text:
            self.discard()
            path.write_text(text)

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.npz"

    def has(self, number: int) -> bool:
        return self.path(number).is_file()

    def write(self, number: int, partial: Partial) -> None:
        """Put a stretch in place, whole or not at all."""
        beside = self.folder / f".part-{number:06d}.{os.getpid()}"
        with beside.open("wb") as file:
            np.savez(
                file,
                lengths=partial.lengths,
                lines=partial.lines,
                facts=np.frombuffer(json.dumps(partial.facts).encode(), dtype=np.uint8),
                **partial.fingerprints._asdict(),
            )
        beside.replace(self.path(number))

    def facts(self, number: int) -> dict[str, Any]:
        with np.load(self.path(number)) as held:
            facts: dict[str, Any] = json.loads(held["facts"].tobytes())
        return facts

    def lines(self, number: int) -> np.ndarray:
        """The lines of a stretch's rows."""
        with np.load(self.path(number)) as held:
            lines: np.ndarray = held["lines"]
        return lines

    def rows(self, number: int) -> tuple[np.ndarray, Fingerprints]:
        """The lengths of a stretch's rows, and their fingerprints."""
        with np.load(self.path(number)) as held:
            return held["lengths"], Fingerprints(*(held[name] for name in Fingerprints._fields))

    def discard(self) -> None:
        """Remove what was kept."""
        for path in [*self.folder.glob("part-*"), *self.folder.glob(".part-*"), self.folder / IDENTITY]:
            path.unlink(missing_ok=True)
