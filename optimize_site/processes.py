"""Processes by pid and start time, so that a reused pid is never mistaken for ours. Needs nothing but the kernel."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

TERM_SECONDS = 10.0


@dataclass(frozen=True)
class Identity:
    """One process of this node; `started` is its start time in clock ticks since boot (field 22 of its stat)."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """The process that has this pid now, or None."""
        started = start_time(pid)
        return None if started is None else cls(pid, started)

    def is_alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return start_time(self.pid) == self.started

    def send(self, number: int) -> None:
        """Signal the process; nothing happens where it is gone."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Wait for the process to be gone; False where it outlived the wait."""
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def end(self, first: int = signal.SIGTERM, seconds: float = TERM_SECONDS) -> None:
        """Ask the process to stop, and kill it where it does not."""
        self.send(first)
        if not self.wait(seconds):
            self.send(signal.SIGKILL)
            self.wait(TERM_SECONDS)


def start_time(pid: int) -> int | None:
    """The start time of a live process, or None where there is none or only a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in {"Z", "X"} else int(after_name[19])
