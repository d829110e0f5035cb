"""One supervised service: its process, its state, and when it is started next."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from optimize_site.appliance.backoff import Backoff
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.logs import last_lines, open_log
from optimize_site.appliance.processes import Adopted, dies_with_parent
from optimize_site.appliance.service import Service
from optimize_site.processes import Identity

State = Literal["waiting", "starting", "ready", "failing", "stopping", "stopped"]


def spawn(service: Service, log: int, extra: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a service in a session of its own; it ends when this process ends."""
    return subprocess.Popen(
        [*service.command, *extra], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=service.cwd,
        env={**os.environ, **service.env}, pass_fds=service.pass_fds, start_new_session=True,
        user=service.user, group=service.group, extra_groups=None if service.user is None else [],
        preexec_fn=dies_with_parent(service.death_signal),  # safe: the supervisor has one thread
    )  # fmt: skip


class Unit:
    """A service and what became of it. `tick` must be called often; it never blocks for long.

    `bear`, where it is given, forks the service's process; where it gives no pid the service starts as a program.
    """

    def __init__(self, service: Service, logs: Path, bear: Callable[[Service, Path], int | None] | None = None) -> None:
        self.service = service
        self._logs, self._bear = logs, bear
        self.log = logs / f"{service.log_name}.log"
        self.state: State = "waiting"
        self.backoff = Backoff()
        self.restarts = 0
        self.last_error = ""
        self.since = time.time()
        self._process: subprocess.Popen[bytes] | Adopted | None = None
        self._identity: Identity | None = None
        self._started_at = self._ready_at = self._next_start = 0.0

    def tick(self) -> None:
        """Start it when it is time, notice that it is ready, notice that it ended."""
        now = time.monotonic()
        if self._process is None:
            if self.state not in ("stopping", "stopped") and now >= self._next_start:
                self._start(now)
        elif (code := self._process.poll()) is not None:
            self._note_end(code, now)
        elif self.state in ("starting", "failing"):
            self._look_whether_ready(self._process.pid, now)

    def adopt(self, pid: int) -> None:
        """Take a process that was forked for this service."""
        self._process = Adopted(pid)
        self._note_start(time.monotonic())

    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Ask it to stop and never start it again."""
        self._enter("stopping" if self.is_running() else "stopped")
        if self._process and self.is_running():
            self._process.send_signal(self.service.stop_signal)

    def kill(self) -> None:
        """End it at once."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def note_stopped(self) -> None:
        """Record that it is gone for good."""
        self._process = self._identity = None
        self._enter("stopped")

    def tail(self, count: int = 12) -> str:
        """The last lines of its log, for a message."""
        return "\n".join(f"    {line}" for line in last_lines(self.log, count))

    def document(self) -> dict[str, Any]:
        """What the status shows of it."""
        return {
            "name": self.service.name, "state": self.state, "since": self.since, "restarts": self.restarts,
            "pid": self._identity.pid if self._identity else None,
            "started": self._identity.started if self._identity else None,
            "lastError": self.last_error, "log": str(self.log),
        }  # fmt: skip

    def _start(self, now: float) -> None:
        descriptor = open_log(self.log)
        try:
            self.service.before_start()
            pid = self._bear(self.service, self._logs) if self._bear else None
            self._process = Adopted(pid) if pid else spawn(self.service, descriptor)
        except (OSError, ApplianceError, subprocess.SubprocessError) as error:
            os.write(descriptor, f"{error}\n".encode())
            self._plan_restart(f"could not be started: {error}", now)
            return
        finally:
            os.close(descriptor)
        self._note_start(now)

    def _note_start(self, now: float) -> None:
        self._identity = Identity.of(self._process.pid) if self._process else None
        self._started_at, self._ready_at = now, 0.0
        if self.state != "failing":
            self._enter("starting")

    def _look_whether_ready(self, pid: int, now: float) -> None:
        if self.service.is_ready(pid):
            self._ready_at = now
            self._enter("ready")
        elif now - self._started_at > self.service.ready_seconds:
            self.kill()
            self._plan_restart(f"was not ready after {self.service.ready_seconds:.0f} s", now)

    def _note_end(self, code: int, now: float) -> None:
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        if self.state == "stopping":
            self.note_stopped()
        else:
            self._plan_restart(how, now)

    def _plan_restart(self, error: str, now: float) -> None:
        self._process = self._identity = None
        self.backoff.note_end(now - self._ready_at if self._ready_at else 0.0)
        self._ready_at = 0.0
        self.restarts += 1
        self.last_error = error
        self._next_start = now + self.backoff.delay()
        self._enter("failing" if self.backoff.is_failing else "waiting")

    def _enter(self, state: State) -> None:
        if state != self.state:
            self.state, self.since = state, time.time()
