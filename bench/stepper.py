"""An arm that lives in its own process and makes one step when it is told to."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from bench.material import ENGINE_TESTS, environment
from gpu_worker.launch import job_python

ARMS = Path(__file__).parent / "arms"


class Stepper:
    """Starts the arm, waits until it stands before its first step, and then drives it step by step."""

    def __init__(self, script: str, settings: dict[str, Any], *, threads: int, python: str = "") -> None:
        self.replies: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [python or str(job_python()), "-P", str(ARMS / script), json.dumps(settings)],
            env=environment(ARMS, ENGINE_TESTS, threads=threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ready = self._read()

    def step(self) -> dict[str, Any]:
        """One step: its wall seconds, its processor seconds, and what it computed."""
        self._write("go")
        reply = self._read()
        self.replies.append(reply)
        return reply

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _write(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("an arm ended before its time")
        reply: dict[str, Any] = json.loads(line)
        return reply
