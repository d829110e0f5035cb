"""Parents and children: taking on a child that another started, and ending with the parent."""

import ctypes
import os
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


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
