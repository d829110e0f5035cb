"""A process beside the job that is told something once and then asked, a line of JSON for a line of JSON."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

LOG_CHARACTERS = 2000
READ_BYTES = 1 << 20
LOOK_SECONDS = 1.0
END_SECONDS = 5.0


class Lost(Exception):
    """The process is gone, or not to be understood."""


class LineProcess:
    """Starts it, asks it, lets it end. What it writes to standard error goes to a log. While it is waited for,
    `leave_if_asked` is called each second; what that raises ends the wait, and then nothing but `close` may follow."""

    def __init__(
        self,
        command: list[str],
        *,
        cwd: str | Path,
        environment: dict[str, str],
        log: Path,
        ready_seconds: float,
        leave_if_asked: Callable[[], None] = lambda: None,
    ) -> None:
        self._command, self._cwd, self._environment = command, cwd, environment
        self._log, self._ready_seconds = log, ready_seconds
        self._leave_if_asked = leave_if_asked
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    @property
    def pid(self) -> int | None:
        """Its number, while it was started and not closed."""
        return self._process.pid if self._process else None

    def start(self, first: dict[str, Any]) -> dict[str, Any]:
        """Start it, tell it its first line, and wait for what it says to that. Raises OSError where it cannot be
        started, Lost where it ends or is silent for too long."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._cwd, env=self._environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._unread = b""
        self._say(first)
        return self._read(deadline=time.monotonic() + self._ready_seconds)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Its answer, however long it takes. Raises Lost."""
        self._say(request)
        return self._read()

    def close(self) -> None:
        """Let it end: its input is at an end, and it is killed where that does not move it."""
        if self._process is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def log_end(self) -> str:
        """The last of what it wrote to its log."""
        with suppress(OSError):
            return self._log.read_text(errors="replace")[-LOG_CHARACTERS:]
        return ""

    def _say(self, body: dict[str, Any]) -> None:
        try:
            self._process.stdin.write(json.dumps(body).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Lost(f"its input is closed: {error}") from error

    def _read(self, deadline: float | None = None) -> dict[str, Any]:
        line = self._line(deadline)
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise Lost("it wrote no JSON" if line else self._how_it_ended()) from error
        if not isinstance(answer, dict):
            raise Lost("it wrote no JSON object")
        return answer

    def _line(self, deadline: float | None) -> bytes:
        """The next line of its output; what there is where that is at an end."""
        parts = [self._unread]
        while b"\n" not in parts[-1]:
            self._wait(deadline)
            parts.append(os.read(self._process.stdout.fileno(), READ_BYTES))
            if not parts[-1]:
                break
        line, end, self._unread = b"".join(parts).partition(b"\n")
        return line + end

    def _wait(self, deadline: float | None) -> None:
        """Until it writes or its output is at an end. Raises Lost at the deadline."""
        while not select.select([self._process.stdout], [], [], LOOK_SECONDS)[0]:
            if deadline is not None and time.monotonic() > deadline:
                self._process.kill()
                raise Lost(f"it said nothing for {self._ready_seconds:g} seconds")
            self._leave_if_asked()

    def _how_it_ended(self) -> str:
        """Its output is at an end, and it is a moment later; one that is not says no more either."""
        try:
            return f"exit status {self._process.wait(timeout=END_SECONDS)}"
        except subprocess.TimeoutExpired:
            return "it closed its output"
