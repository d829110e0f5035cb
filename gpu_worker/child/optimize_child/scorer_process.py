"""The process that scores completions: started beside the job, told its terms once, asked by lines of JSON."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from optimize_child.failures import JobFailure

READY_SECONDS = 300.0
LOG_CHARACTERS = 2000
# A reward's code sees none of what the job was started with, but for what any program needs to run.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")


class ScorerProcess:
    """Answers requests with verdicts. It is started anew, once a request, where it was lost on the way. `scored_by` is
    what its failures call what scores."""

    def __init__(self, scorer: dict[str, Any], log: Path, *, scored_by: str = "reward") -> None:
        self._command, self._cwd, self._spec = scorer["command"], scorer["cwd"], scorer["spec"]
        self._log, self._scored_by = log, scored_by
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0

    def start(self) -> None:
        """Start it and wait until it can score. Raises JobFailure `scorer_not_ready` with its own reason."""
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command, cwd=self._cwd, env=environment,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                )  # fmt: skip
        except OSError as error:
            raise self._not_ready(f"it could not be started ({error})") from error
        try:
            self._say(self._spec)
            answer = self._first_line()
        except _Lost as lost:
            raise self._not_ready(f"it ended before it could score ({lost})", log=self._log_end()) from lost
        if not answer.get("ready"):
            raise self._not_ready(str(answer.get("reason", "no reason was given")).rstrip("."), **_refusal(answer))

    def ask(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What every term says of some items: its name, seconds, tokens and verdicts in the items' order.

        Raises JobFailure `scorer_lost` where it ends twice over the same items, or answers something else.
        """
        self._number += 1
        request = {"id": self._number, "items": items}
        try:
            return self._answer(request)
        except _Lost:
            self.close()
            self.start()
        try:
            return self._answer(request)
        except _Lost as lost:
            raise JobFailure(
                "scorer_lost",
                f"The process that scores completions ended twice over the same {len(items)} of them ({lost}).",
                hint="Look at the reward's own code and its limits; `graders run` tries it on rows of your own.",
                log=self._log_end(),
            ) from lost

    def close(self) -> None:
        """Let it end."""
        if self._process is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def _not_ready(self, reason: str, *, hint: str = "", **evidence: Any) -> JobFailure:
        return JobFailure(
            "scorer_not_ready",
            f"The {self._scored_by} cannot score: {reason}.",
            hint=hint or "Try it with `graders validate`, and look at the job's scorer.log.",
            **evidence,
        )

    def _answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        self._say(request)
        answer = self._read()
        terms = answer.get("terms")
        if answer.get("id") != request["id"] or not isinstance(terms, list):
            raise _Lost(str(answer.get("error", "it answered something else")))
        if any(len(term["verdicts"]) != len(request["items"]) for term in terms):
            raise _Lost("it answered for another number of completions")
        return terms

    def _say(self, body: dict[str, Any]) -> None:
        try:
            self._process.stdin.write(json.dumps(body).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise _Lost(f"its input is closed: {error}") from error

    def _first_line(self) -> dict[str, Any]:
        deadline = time.monotonic() + READY_SECONDS
        while not select.select([self._process.stdout], [], [], 1.0)[0]:
            if time.monotonic() > deadline:
                self._process.kill()
                raise _Lost(f"it said nothing for {READY_SECONDS:g} seconds")
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise _Lost(f"exit status {self._process.poll()}" if not line else "it wrote no JSON") from error
        if not isinstance(answer, dict):
            raise _Lost("it wrote no JSON object")
        return answer

    def _log_end(self) -> str:
        with suppress(OSError):
            return self._log.read_text(errors="replace")[-LOG_CHARACTERS:]
        return ""


class _Lost(Exception):
    """The process is gone, or not to be understood."""


def _refusal(answer: dict[str, Any]) -> dict[str, Any]:
    return {"hint": str(answer.get("hint") or ""), "scorerCode": answer.get("code")}
