"""Processes by identity (pid and start time), so that a reused pid is never taken for ours."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Identity:
    """One process: its pid and the clock tick at which it started."""

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

    def end(self, first: int = signal.SIGTERM, seconds: float = 10) -> None:
        """Ask the process to stop, and kill it where it does not."""
        self.send(first)
        if not self.wait(seconds):
            self.send(signal.SIGKILL)
            self.wait(5)


class Adopted:
    """A child that this process did not start itself, with the part of Popen that is needed of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code, as Popen tells it, or None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """The exit code, once it ended."""
        code = self._reap(0)
        return -signal.SIGKILL if code is None else code

    def send_signal(self, number: int) -> None:
        """Signal it; nothing happens where it ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _reap(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def adopt_orphans(on: bool) -> None:
    """Whether processes below this one become its children when their parent ends."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, or None where no such process runs."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])


def dies_with_parent(number: int) -> Callable[[], None]:
    """What a child runs before exec: take `number` when this process ends, however it ends."""
    parent = os.getpid()

    def arrange() -> None:
        dies_with_this_parent(number)
        if os.getppid() != parent:  # it ended between fork and prctl
            os._exit(1)

    return arrange


def dies_with_this_parent(number: int) -> None:
    """From now on this process takes `number` when its parent ends."""
    _libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
