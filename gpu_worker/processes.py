"""The processes of an attempt, as its `pid.json` records them."""

import json
import signal
import time
from pathlib import Path

from optimize_site.processes import TERM_SECONDS, Identity


def recorded(folder: Path) -> list[Identity]:
    """The shepherd and the job, as far as the attempt's `pid.json` knows them."""
    try:
        found = json.loads((folder / "pid.json").read_text())
    except (OSError, ValueError):
        return []
    return [Identity(int(entry["pid"]), int(entry["started"])) for entry in
            (found.get("shepherd"), found.get("job")) if entry]


def job_of(folder: Path) -> Identity | None:
    """The process that does the work; the shepherd is written down before it and only waits."""
    return next(reversed(recorded(folder)), None)


def any_alive(folder: Path) -> bool:
    """Whether anything of this attempt still runs."""
    return any(process.is_alive() for process in recorded(folder))


def end(folder: Path) -> None:
    """TERM, wait, KILL, wait: returns once nothing of the attempt runs. The job before its shepherd."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in reversed(recorded(folder)):
            process.send(number)
        deadline = time.monotonic() + TERM_SECONDS
        while any_alive(folder) and time.monotonic() < deadline:
            time.sleep(0.05)
