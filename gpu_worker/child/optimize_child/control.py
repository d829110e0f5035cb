"""Whether the job may go on: read from control.json at each boundary, for the price of one stat."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

UNWATCHED_SECONDS = 600


class Control:
    """Watches the control file of one attempt.

    A worker that adopts the job writes a higher token. From then on only that worker is heard: the one it replaced
    may not know yet, and the job goes on under the new one. How long nobody watched is counted from when this process
    last saw the file change, on a clock that nobody can set.
    """

    def __init__(self, path: Path, *, unwatched_seconds: float = UNWATCHED_SECONDS,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._unwatched_seconds = unwatched_seconds
        self._changed_at = clock()
        self._stamp: tuple[int, int] | None = None
        self._body: dict[str, Any] = {}

    def reason_to_leave(self) -> str | None:
        """`stop`, `pause`, `drop`, `unwatched`, or None. A job without a control file is run by hand: None."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return None
        if self._stamp != (stat.st_mtime_ns, stat.st_ino):
            self._read((stat.st_mtime_ns, stat.st_ino))
        if self._clock() - self._changed_at > self._unwatched_seconds:
            return "unwatched"
        return self._asked()

    def _read(self, stamp: tuple[int, int]) -> None:
        try:
            body = json.loads(self._path.read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return
        self._stamp, self._changed_at = stamp, self._clock()
        if body.get("token", 0) >= self._body.get("token", 0):
            self._body = body

    def _asked(self) -> str | None:
        return self._body.get("ask") or None
