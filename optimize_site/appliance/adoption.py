"""The supervisor's side of the nursery: order services, take them on when they are born."""

import contextlib
import json
import math
import os
import select
import subprocess
import time
from pathlib import Path

from optimize_site.appliance.logs import open_log
from optimize_site.appliance.places import CHECKOUT, Places
from optimize_site.appliance.processes import adopt_orphans, dies_with_parent
from optimize_site.appliance.python import environment, module
from optimize_site.appliance.service import Service

BIRTH_SECONDS, REBIRTH_SECONDS = 60, 5


class Nursery:
    """A process that loads the server's code while the database starts, and then forks services whenever one is due.

    `descriptor` is the web's listening socket.
    """

    def __init__(self, places: Places, descriptor: int) -> None:
        log = open_log(places.logs / "setup.log")
        self._process = subprocess.Popen(
            module("optimize_site.appliance.nursery"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            cwd=CHECKOUT, env={**os.environ, **environment(places)}, pass_fds=(descriptor,), start_new_session=True,
            preexec_fn=dies_with_parent(9),
        )  # fmt: skip
        os.close(log)
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both were asked for")
        self._stdin, self._stdout, self._descriptor = self._process.stdin, self._process.stdout, descriptor
        self._deadline = math.inf

    def order(self, services: list[Service], logs: Path, *, within: float = BIRTH_SECONDS) -> None:
        """Tell which services are wanted. From here until `born` the supervisor takes on orphans."""
        wanted = [
            {
                "name": service.name,
                "forked": service.forked,
                "env": service.env,
                "log": str(logs / f"{service.log_name}.log"),
                "closed": sorted({self._descriptor}.difference(service.pass_fds)),
            }
            for service in services
        ]
        adopt_orphans(True)
        self._deadline = time.monotonic() + within
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(json.dumps(wanted).encode() + b"\n")
            self._stdin.flush()

    def is_done(self) -> bool:
        """Whether it answered or ended; one that hangs is ended, and then gave no service."""
        if time.monotonic() > self._deadline:
            self._process.kill()
            self._process.wait()
        return bool(select.select([self._stdout], [], [], 0)[0])  # at its end it can be read too

    def born(self) -> dict[str, int]:
        """The pids of the services by name; none where the nursery failed, which its log in setup.log explains."""
        adopt_orphans(False)
        self._deadline = math.inf
        pids: dict[str, int] = json.loads(self._stdout.readline() or b"{}")
        return pids

    def bear(self, service: Service, logs: Path) -> int | None:
        """Fork one service again; its pid, or None where the nursery is gone or does not answer in time."""
        if self._process.poll() is not None:
            return None
        self.order([service], logs, within=REBIRTH_SECONDS)
        while not self.is_done():
            time.sleep(0.005)
        return self.born().get(service.name)

    def end(self) -> None:
        """No more services are wanted."""
        self._process.kill()
        self._process.wait()
