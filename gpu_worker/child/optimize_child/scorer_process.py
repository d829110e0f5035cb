"""The process that scores completions: started beside the job, told its terms once, asked by lines of JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optimize_child.failures import JobFailure
from optimize_child.line_process import LineProcess, Lost

READY_SECONDS = 300.0
# What scores sees none of what the job was started with, but for what any program needs to run and what the plan names:
# the variables by which a service knows who asks. A bundle's own process sees neither.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")


class ScorerProcess:
    """Answers requests with verdicts. It is started anew, once a request, where it was lost on the way. `scored_by` is
    what its failures call what scores; `leave_if_asked` is called while it is waited for, and may raise."""

    def __init__(
        self, scorer: dict[str, Any], log: Path, *, leave_if_asked: Callable[[], None], scored_by: str = "reward"
    ) -> None:
        passed_on = (*PASSED_ON, *scorer.get("environment", ()))
        environment = {name: os.environ[name] for name in passed_on if name in os.environ}
        self._process = LineProcess(
            scorer["command"], cwd=scorer["cwd"], environment=environment, log=log, ready_seconds=READY_SECONDS,
            leave_if_asked=leave_if_asked,
        )  # fmt: skip
        self._spec, self._scored_by = scorer["spec"], scored_by
        self._number = 0

    def start(self) -> None:
        """Start it and wait until it can score. Raises JobFailure `scorer_not_ready` with its own reason."""
        try:
            answer = self._process.start(self._spec)
        except OSError as error:
            raise self._not_ready(f"it could not be started ({error})") from error
        except Lost as lost:
            raise self._not_ready(f"it ended before it could score ({lost})", log=self._process.log_end()) from lost
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
        except Lost:
            self.close()
            self.start()
        try:
            return self._answer(request)
        except Lost as lost:
            raise JobFailure(
                "scorer_lost",
                f"The process that scores completions ended twice over the same {len(items)} of them ({lost}).",
                hint="Look at the reward's own code and its limits; `graders run` tries it on rows of your own.",
                log=self._process.log_end(),
            ) from lost

    def close(self) -> None:
        """Let it end."""
        self._process.close()

    def _not_ready(self, reason: str, *, hint: str = "", **evidence: Any) -> JobFailure:
        return JobFailure(
            "scorer_not_ready",
            f"The {self._scored_by} cannot score: {reason}.",
            hint=hint or "Try it with `graders validate`, and look at the job's scorer.log.",
            **evidence,
        )

    def _answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self._process.ask(request)
        terms = answer.get("terms")
        if answer.get("id") != request["id"] or not isinstance(terms, list):
            raise Lost(str(answer.get("error", "it answered something else")))
        if any(len(term["verdicts"]) != len(request["items"]) for term in terms):
            raise Lost("it answered for another number of completions")
        return terms


def _refusal(answer: dict[str, Any]) -> dict[str, Any]:
    return {"hint": str(answer.get("hint") or ""), "scorerCode": answer.get("code")}
