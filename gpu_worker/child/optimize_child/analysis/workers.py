"""Several processes that measure stretches of a dataset, fed with the numbers of stretches through a pipe.

Forked, so that they share what the job has loaded. Each stretch is put in place whole by whoever measured it, so a
process that dies costs at most the stretch it was at.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

from optimize_child.failures import JobFailure, failure_from

PATIENCE_SECONDS = 0.5
_NUMBER = struct.Struct("<i")

Work = Callable[[int], None]


def share_out(numbers: Sequence[int], work: Work, processes: int, tick: Callable[[int | None], None]) -> None:
    """Call `work` for each number, in as many processes. `tick` is told each number that is done, and None while
    nothing is; what it raises ends the processes. Raises JobFailure where one of them failed."""
    if processes < 2 or len(numbers) < 2:
        for number in numbers:
            work(number)
            tick(number)
        return
    _Crew(numbers, work, min(processes, len(numbers))).run(tick)


class _Crew:
    def __init__(self, numbers: Sequence[int], work: Work, processes: int) -> None:
        self._work = work
        self._parent = os.getpid()
        self._waiting = len(numbers)
        self._asking, giving = os.pipe()
        self._hearing, self._telling = os.pipe()
        # All of it fits a pipe: there are a few thousand stretches at most.
        os.write(giving, b"".join(map(_NUMBER.pack, numbers)))
        os.close(giving)
        self._pids = {self._fork() for _ in range(processes)}

    def run(self, tick: Callable[[int | None], None]) -> None:
        try:
            while self._waiting:
                tick(self._next())
        finally:
            self._end()

    # -- the parent ---------------------------------------------------------------------------------------------------

    def _next(self) -> int | None:
        """A number that is done; None after a while without one."""
        ready, _, _ = select.select([self._hearing], [], [], PATIENCE_SECONDS)
        if not ready:
            self._require_alive()
            return None
        (number,) = _NUMBER.unpack(os.read(self._hearing, _NUMBER.size))
        self._waiting -= 1
        return int(number)

    def _require_alive(self) -> None:
        for pid in list(self._pids):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._pids.discard(pid)
                if status:
                    raise _died(status)

    def _end(self) -> None:
        os.close(self._asking)
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for pid in self._pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        os.close(self._hearing)
        os.close(self._telling)

    # -- a child ------------------------------------------------------------------------------------------------------

    def _fork(self) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._serve()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _serve(self) -> None:
        # A parent that was killed is not missed before the next stretch.
        while os.getppid() == self._parent and (data := os.read(self._asking, _NUMBER.size)):
            (number,) = _NUMBER.unpack(data)
            self._work(number)
            os.write(self._telling, data)


def _died(status: int) -> JobFailure:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return failure_from(MemoryError("a process that measured rows was killed"))
    return JobFailure("unexpected", "A process that measured rows ended early.", hint="The log has the details.")
