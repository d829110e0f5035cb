"""The job's only voice: one JSON object a line in events.jsonl, each written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

VERSION = 1

# Required fields first, then those an event may leave out. The server's types are the other half of this table;
# a test on each side compares it with the schema file that lies beside this module.
FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "started": (("pid", "versions"), ("prepared",)),
    "stage": (("name",), ("done", "peak_memory_bytes", "total", "unit")),
    "progress": (("done",), ("total", "unit")),
    "hparams": (("values", "sha"), ()),
    "engine_config": (("requested", "resolved"), ()),
    "engine_runtime": ((), ("trainer", "model", "rolloutEngine", "memory")),
    "data_fit": (
        ("rows", "tooLong", "trainedTokens", "totalTokens", "paddingShare", "longest"),
        ("trimmed", "turnsRemoved", "validation", "masked"),
    ),
    "plan_size": (("totalSteps", "rowsPerEpoch"), ("updatesPerEpoch", "sequences")),
    "check": (("name", "passed"), ("value", "bound", "seconds", "detail")),
    "metrics": (("step", "values"), ()),
    "rollouts": (("step", "file", "count"), ()),
    "validation": (("step", "loss", "perplexity"), ("tokens", "seconds")),
    "snapshot": (
        ("step", "folder", "weights", "trainingState", "manifestSha256", "bytes", "final"),
        ("stateManifestSha256", "epoch"),
    ),
    "saves": (("waiting", "skipped"), ()),
    "answer": (
        (
            "position",
            "system",
            "prompt",
            "expected",
            "answer",
            "prompt_tokens",
            "completion_tokens",
            "chat_template_sha256",
            "base_model_revision",
            "finish",
        ),
        ("tools",),
    ),
    "scored": (("position", "score", "is_exact", "fields", "explanation", "cause"), ()),
    "missed": (("position", "prompt", "expected", "answer", "finish"), ()),
    "smoke": (
        ("verdict", "score", "threshold", "rows", "scored", "reproduced", "toolAnswers", "memorised", "step"),
        (),
    ),
    "warning": (("code", "message"), ()),
    "failure": (("code", "reason", "hint", "evidence"), ()),
    "stopped": (("reason",), ("step",)),
    "finished": (
        (),
        (
            "step",
            "adapter",
            "totals",
            "answers",
            "folder",
            "revision",
            "parameters",
            "context_length",
            "vocab_size",
            "chat_template_sha256",
            "chat_template_correction",
            "special_tokens",
            "files",
            "architecture",
            "model_type",
            "bytes",
            "report",
            "preview",
        ),
    ),
}


class EventLog:
    """Appends events. A reader may follow the file at any time: a line is there whole, or not yet."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def emit(self, type_: str, /, *, sync: bool = False, **fields: Any) -> None:
        """Write one event of a known type; with `sync` it is on the disk when this returns."""
        _check(type_, fields)
        line = json.dumps({"v": VERSION, "t": round(time.time(), 3), "type": type_, **_finite(fields)}) + "\n"
        _write_whole(self._fd, line.encode())
        if sync:
            os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def _write_whole(fd: int, data: bytes) -> None:
    """One write for one line: what another process reads, or a kill leaves behind, never starts mid-line. Of a line
    for which the disk had no room nothing stays."""
    written = os.write(fd, data)
    try:
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError:
        os.ftruncate(fd, os.fstat(fd).st_size - written)
        raise


def _check(type_: str, fields: dict[str, Any]) -> None:
    required, optional = FIELDS[type_]
    missing = [name for name in required if name not in fields]
    unknown = [name for name in fields if name not in required and name not in optional]
    if missing or unknown:
        raise ValueError(f"event {type_}: missing {missing}, unknown {unknown}")


def _finite(value: Any) -> Any:
    """JSON has no NaN and no Infinity: they become null, so that every line parses everywhere."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
