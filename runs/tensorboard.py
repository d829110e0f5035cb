"""A run's figures for TensorBoard: as the bytes of an event file, and mirrored into one that grows with the run.

Both read the figures as the API gives them, so that a mirror of another box's run says the same.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from runs.event_files import header, restart, scalars

GROUPS = {"validationLoss": "validation/loss", "perplexity": "validation/perplexity"}
"""Figures that stand in a group of another name than the rest, which is `train`."""
LARGEST = 3.4028234663852886e38
"""Beyond it a file's numbers, of 32 bits, are infinite."""


def file_name(run: Mapping[str, Any]) -> str:
    """What the run's event file is called: the same each time, and known to TensorBoard by its beginning."""
    return f"events.out.tfevents.{int(_seconds(run['createdAt']))}.{run['runId'][:12]}"


def event_file(run: Mapping[str, Any], metrics: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The whole of a run's figures as an event file, record by record."""
    yield header(_seconds(run["createdAt"]))
    yield from (scalars(_seconds(metric["at"]), metric["step"], tags_of(metric)) for metric in metrics)


def tags_of(metric: Mapping[str, Any]) -> dict[str, float]:
    """The figures of an update as the API gives them, by the tag that TensorBoard shows: `train/loss`."""
    named = {GROUPS.get(name, f"train/{name}"): value for name, value in metric.items()
             if name not in {"step", "attempt", "at", "measured", "rewardTerms"}}
    terms = {f"reward/{name}": value for name, value in (metric.get("rewardTerms") or {}).items()}
    found = named | {_measured_tag(name): value for name, value in metric["measured"].items()} | terms
    return {tag: float(value) for tag, value in found.items() if _is_number(value)}


def _measured_tag(name: str) -> str:
    return f"memory/{name}" if "memory" in name else f"train/{name}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) \
        and abs(value) <= LARGEST


def _seconds(at: datetime | str) -> float:
    return (datetime.fromisoformat(at) if isinstance(at, str) else at).timestamp()


class Mirror:
    """An event file below a folder that is written whole once and then grows by what is new.

    It holds what a run reported last: where a later attempt trained updates again, it takes the earlier ones back.
    """

    def __init__(self, folder: Path, run: Mapping[str, Any]):
        self.file = folder / str(run["runId"])[:12] / file_name(run)
        self._attempt, self._step = 0, -1
        self._told: frozenset[str] = frozenset()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beginning = self.file.with_name(f".{self.file.name}.new")
        beginning.write_bytes(header(_seconds(run["createdAt"])))
        beginning.replace(self.file)

    @property
    def step(self) -> int:
        """The last update that it tells of; 0 before any."""
        return max(0, self._step)

    def wanted_from(self, run: Mapping[str, Any]) -> int:
        """The first update whose figures may be new: the last one told, for a validation is added to it later; where
        another attempt took over, the update it went on from."""
        newest = run["attempts"][-1] if run["attempts"] else {"number": 0, "resumedStep": None}
        return self.step if newest["number"] == self._attempt else min(self.step, newest["resumedStep"] or 0)

    def add(self, metrics: Iterable[Mapping[str, Any]]) -> None:
        """Append what is new of some updates' figures, in their order."""
        new = b"".join(part for metric in metrics for part in self._records(metric))
        if new:
            with self.file.open("ab") as file:
                file.write(new)

    def _records(self, metric: Mapping[str, Any]) -> Iterator[bytes]:
        place = (metric["attempt"], metric["step"])
        if place < (self._attempt, self._step):
            return
        told = self._told if place == (self._attempt, self._step) else frozenset()
        new = {tag: value for tag, value in tags_of(metric).items() if tag not in told}
        at = _seconds(metric["at"])
        if metric["step"] < self._step:
            yield restart(at, metric["step"])
        if new:
            yield scalars(at, metric["step"], new)
        (self._attempt, self._step), self._told = place, told | new.keys()
