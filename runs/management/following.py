"""What the verbs of `runs` share that start a run and follow it to its end."""

import json
import secrets
import sys
import time
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.status import Status

from optimize_site.kernel.commands import (
    EXIT_CANCELLED,
    EXIT_CHECK_FAILED,
    EXIT_DONE,
    EXIT_TIMED_OUT,
    EXIT_WORK_FAILED,
    NounCommand,
    arg,
    plain,
)
from optimize_site.kernel.errors import Unavailable
from runs import text

ROUTE = "/v1/training/runs"
PASSED = "passed"
OVER = {"COMPLETED": EXIT_DONE, "FAILED": EXIT_WORK_FAILED, "CANCELLED": EXIT_CANCELLED}
EXIT_STATUS = arg("--exit-status", action="store_true", help="5 where it failed, 6 where it was cancelled, 8 where "
                  "its smoke check was not passed")
SENDS = 3
LINE_SECONDS = 10.0


class FollowedRuns(NounCommand):
    """Sends a submission so that it counts once, and waits for a run."""

    def submit(self, route: str, document: Any) -> Any:
        """Send it, again after a lost connection: the submission's ID makes the second reach the first one's run."""
        if isinstance(document, dict) and not document.get("submissionId"):
            document = document | {"submissionId": secrets.token_hex(16)}
        for sends_left in reversed(range(SENDS)):
            try:
                return self.client.post(route, document)
            except Unavailable:
                if not sends_left:
                    raise
                time.sleep(1.0)
        raise AssertionError("the last send returns or raises")

    def wait_for(self, run: str, timeout: float | None, exit_status: bool) -> int:
        """Show how a run gets on until it is over, or time is, and then what it came to; gives the exit status."""
        with Progress(self) as progress:
            found, is_late = self.watch(address(run), timeout=timeout, each=progress.tell,
                                        is_over=lambda document: document["phase"] in OVER)
        if is_late:
            self.say(f"The run {found['runId'][:12]} is still {text.status_line(found)}; it carries on.")
            return EXIT_TIMED_OUT
        self.show(found, text=self.record)
        return _status_of(found) if exit_status else EXIT_DONE

    def record(self, run: dict[str, Any]) -> None:
        """Print a run: its state, results, cost."""
        self.facts(text.state_rows(run), title="State")
        results = text.result_rows(run)
        if any(value is not None for _, value in results):
            self.facts(results, title="Results")
        self.facts(text.cost_rows(run), title="Cost")


class Progress:
    """How a wait shows a run: one line that changes at a terminal, lines otherwise, JSON lines for programs."""

    def __init__(self, command: NounCommand):
        self.command, self.last_event, self.last_phase, self.told_at = command, 0, "", 0.0
        is_live = sys.stderr.isatty() and not command.options.quiet and command.is_text
        self.line = Status("", console=Console(stderr=True)) if is_live else None

    def __enter__(self) -> "Progress":
        if self.line is not None:
            self.line.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.line is not None:
            self.line.stop()

    def tell(self, document: dict[str, Any]) -> None:
        if self.command.is_json:
            self._print_events(document)
        elif self.line is not None:
            self.line.update(plain(text.status_line(document)))
        elif document["phase"] != self.last_phase or time.monotonic() - self.told_at >= LINE_SECONDS:
            self.command.say(plain(text.status_line(document)))
            self.told_at = time.monotonic()
        self.last_phase = document["phase"]

    def _print_events(self, document: dict[str, Any]) -> None:
        if self.command.options.quiet:
            return
        found = self.command.client.get(f"{address(document['runId'])}/events", follow="false", after=self.last_event)
        for event in found["events"]:
            print(json.dumps({"event": event["type"], **event}, default=str), flush=True)
            self.last_event = event["id"]
        print(json.dumps({"event": "status", **found["status"]}, default=str), flush=True)


def _status_of(run: dict[str, Any]) -> int:
    """How a run that is over ended; a completed smoke check is only good where it was passed."""
    status = OVER[run["phase"]]
    is_bad = run["smoke"] is not None and run["smoke"]["verdict"] != PASSED
    return EXIT_CHECK_FAILED if status == EXIT_DONE and is_bad else status


def address(run: str) -> str:
    """The route of a run."""
    return f"{ROUTE}/{quote(run, safe='')}"
