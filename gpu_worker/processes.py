"""Job processes by pid and start time, so that a reused pid is never mistaken for a job."""

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

TERM_SECONDS = 10.0


@dataclass(frozen=True)
class Process:
    """A process of this node; `started` is its start time in clock ticks since boot (field 22 of its stat)."""

    pid: int
    started: int

    def is_alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """The start time of a live process, or None where there is none or only a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in {"Z", "X"} else int(after_name[19])


def recorded(folder: Path) -> list[Process]:
    """The shepherd and the job, as far as the attempt's `pid.json` knows them."""
    try:
        found = json.loads((folder / "pid.json").read_text())
    except (OSError, ValueError):
        return []
    return [Process(int(entry["pid"]), int(entry["started"])) for entry in
            (found.get("shepherd"), found.get("job")) if entry]


def any_alive(folder: Path) -> bool:
    """Whether anything of this attempt still runs."""
    return any(process.is_alive() for process in recorded(folder))


def end(folder: Path) -> None:
    """TERM, wait, KILL, wait: returns once nothing of the attempt runs."""
    for sign, patience in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, TERM_SECONDS)):
        _signal(folder, sign)
        deadline = time.monotonic() + patience
        while any_alive(folder) and time.monotonic() < deadline:
            time.sleep(0.05)


def _signal(folder: Path, sign: signal.Signals) -> None:
    for process in reversed(recorded(folder)):
        if not process.is_alive():
            continue
        try:
            os.kill(process.pid, sign)
        except ProcessLookupError:
            continue
