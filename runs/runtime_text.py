"""The record of what an attempt really ran with, as rows for people. Pure: the record in, rows out."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from runs.text import Row, spell_bytes

MOMENTS = {"afterOffload": "after offloading", "afterLoad": "after loading", "afterFirstRollout": "after the first "
           "rollout", "afterFirstStep": "after the first update"}
MEMORY_COLUMNS = ("MOMENT", "PROCESS", "HOST", "ALLOCATED", "RESERVED", "DEVICE")
CHANGED_COLUMNS = ("SETTING", "STATED", "RUNS WITH")
SIZES = ("hostBytes", "allocatedBytes", "reservedBytes", "deviceUsedBytes")


def sections(record: Mapping[str, Any]) -> list[tuple[str, list[Row]]]:
    """The record under its headings, less what it does not say."""
    found = [("Attempt", attempt_rows(record)), ("Trainer", trainer_rows(record)), ("Model", model_rows(record)),
             *(("Rollout engine", engine_rows(engine)) for engine in record["rolloutEngine"] or ())]
    return [(heading, [row for row in rows if row[1] is not None]) for heading, rows in found if rows]


def attempt_rows(record: Mapping[str, Any]) -> list[Row]:
    """Which attempt it is of, and on what."""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return [("Attempt", str(record["attempt"])), ("Libraries", versions or None)]


def trainer_rows(record: Mapping[str, Any]) -> list[Row]:
    """What was worked out in setup."""
    found = record["trainer"] or {}
    words = {"updates": "Updates", "updatesPerEpoch": "Updates an epoch", "sequencesPerUpdate": "Rows an update",
             "sequencesPerPass": "Rows a pass", "warmupUpdates": "Warm-up updates", "processes": "Processes"}
    path = found.get("computePath")
    return [*((label, f"{found[name]:,}") for name, label in words.items() if name in found),
            *([("Compute path", f"{path['kind']}: {path['reason']}")] if path else [])]


def changed_rows(record: Mapping[str, Any]) -> list[list[Any]]:
    """The settings that stand otherwise than they were stated."""
    changed = (record["trainer"] or {}).get("changedBySetup") or {}
    return [[name, _value(both["before"]), _value(both["after"])] for name, both in changed.items()]


def model_rows(record: Mapping[str, Any]) -> list[Row]:
    """The model's parameters, and where its adapter lies."""
    found = record["model"]
    if not found:
        return []
    modules = Counter(name.rpartition(".")[2] for name in found["adaptedModules"])
    return [*((f"Of {kind}", f"{count:,} parameters") for kind, count in found["parametersByType"].items()),
            ("Trained", f"{found['trainableParameters']:,} parameters"),
            ("Adapted modules", ", ".join(f"{count} × {name}" for name, count in modules.items()))]


def engine_rows(engine: Mapping[str, Any]) -> list[Row]:
    """One rollout engine; what it does not say is left out."""
    cache = engine.get("kvCache") or {}
    tokens = f", {cache['tokens']:,} tokens" if cache.get("tokens") else ""
    return [("Engine", f"{engine['engine']} {engine.get('version', '')}".strip()),
            ("Replica", f"{engine['replica']}, data-parallel rank {engine['dataParallelRank']}"),
            ("Context length", _value(engine.get("contextLength"))),
            ("Attention", ", ".join(engine.get("attentionBackends") or ()) or None),
            ("KV cache", f"{cache['dtype']}{tokens}" if cache.get("dtype") else None),
            ("Memory share", _value(engine.get("memoryShare"))), ("Eager", _value(engine.get("eager"))),
            ("Media profiling", _value(engine.get("multimodalProfiling")))]


def memory_rows(record: Mapping[str, Any]) -> list[list[Any]]:
    """What each process took at each moment."""
    return [[MOMENTS.get(reading["moment"], reading["moment"]),
             "rollout engine" if reading["process"] == "rolloutEngine" else reading["process"],
             *(spell_bytes(reading[name]) if reading.get(name) is not None else None for name in SIZES)]
            for reading in record["memory"]]


def _value(value: Any) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
