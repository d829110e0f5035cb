"""The box's services as the supervisor last wrote them down, and the ends of their logs."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize_site.kernel.conf import home
from optimize_site.kernel.text import plain

LOG_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class LogFile:
    """One log of the state folder."""

    name: str
    size_bytes: int
    changed_at: float


def list_services() -> list[dict[str, Any]]:
    """`{"name", "state", "since", "restarts", "pid", "lastError"}` of each service; empty without a supervisor."""
    try:
        found = json.loads((home() / "status.json").read_text())
    except (OSError, ValueError):
        return []
    services: list[dict[str, Any]] = found.get("services", [])
    return services


def list_logs() -> list[LogFile]:
    """The logs that the box keeps, by name."""
    files = sorted(path for path in (home() / "logs").glob("*.log") if path.is_file())
    return [LogFile(path.name, path.stat().st_size, path.stat().st_mtime) for path in files]


def read_log(name: str) -> str | None:
    """The end of one log, printable; None where there is none of that name."""
    path = home() / "logs" / name
    return tail(path) if LOG_NAME.fullmatch(name) and path.is_file() else None


def tail(path: Path, limit: int = TAIL_BYTES) -> str:
    """The last whole lines of a text file, without control characters; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - limit))
            found = file.read(limit)
    except OSError:
        return ""
    if end > limit:
        found = found.partition(b"\n")[2]
    return plain(found.decode("utf-8", "replace"))
