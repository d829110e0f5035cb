"""The record of what a run's newest attempt really ran with, put together as its job tells the parts of it. Pure."""

from collections.abc import Mapping
from typing import Any

PARTS = ("trainer", "model", "rolloutEngine")
MOMENTS = ("afterOffload", "afterLoad", "afterFirstRollout", "afterFirstStep")
"""When memory is read, in their order. Only an engine that offloads its weights has the first."""


def begun(attempt: int, started: Mapping[str, Any]) -> dict[str, Any]:
    """The record of an attempt whose job has started; the parts that it has not told are None."""
    return {"attempt": attempt, "versions": started["versions"], **dict.fromkeys(PARTS), "memory": []}


def with_parts(record: Mapping[str, Any] | None, attempt: int, told: Mapping[str, Any]) -> dict[str, Any]:
    """The record with what the job tells laid over it; a reading of memory takes the place of one of its moment."""
    kept = record if record is not None and record["attempt"] == attempt else begun(attempt, {"versions": {}})
    parts = {name: told[name] for name in PARTS if told.get(name) is not None}
    return {**kept, **parts, "memory": _readings([*kept["memory"], *(told.get("memory") or ())])}


def _readings(readings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = {(reading["moment"], reading["process"]): reading for reading in readings}
    return sorted(last.values(), key=lambda reading: (_place(reading["moment"]), reading["process"] != "trainer"))


def _place(moment: str) -> int:
    return MOMENTS.index(moment) if moment in MOMENTS else len(MOMENTS)
