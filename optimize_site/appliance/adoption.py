"""The supervisor's side of the nursery: order workers, take them on when they are born."""

import contextlib
import json
import math
import os
import subprocess
import time
from pathlib import Path

from optimize_site.appliance.logs import open_log
from optimize_site.appliance.places import CHECKOUT, Places
from optimize_site.appliance.processes import adopt_orphans, dies_with_parent
from optimize_site.appliance.python import environment, module
from optimize_site.appliance.service import Service

BIRTH_SECONDS = 60


class Nursery:
    """A process that loads the server's code while the database starts, and then forks the workers."""

    def __init__(self, places: Places) -> None:
        log = open_log(places.logs / "setup.log")
        self._process = subprocess.Popen(
            module("optimize_site.appliance.nursery"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            cwd=CHECKOUT, env={**os.environ, **environment(places)}, start_new_session=True,
            preexec_fn=dies_with_parent(9),
        )  # fmt: skip
        os.close(log)
        self._deadline = math.inf

    def order(self, services: list[Service], logs: Path) -> None:
        """Tell which workers are wanted. From here until `born` the supervisor takes on orphans."""
        wanted = [
            {
                "name": service.name,
                "arguments": service.worker_arguments,
                "env": service.env,
                "log": str(logs / f"{service.log_name}.log"),
            }
            for service in services
        ]
        adopt_orphans(True)
        self._deadline = time.monotonic() + BIRTH_SECONDS
        stdin = self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            if stdin:
                stdin.write(json.dumps(wanted).encode() + b"\n")
                stdin.close()

    def is_done(self) -> bool:
        """Whether it ended; one that hangs is ended, and then gave no worker."""
        if time.monotonic() > self._deadline:
            self._process.kill()
            self._process.wait()
        return self._process.poll() is not None

    def born(self) -> dict[str, int]:
        """The pids of the workers by name; none where the nursery failed, which its log in setup.log explains."""
        adopt_orphans(False)
        stdout = self._process.stdout
        if self._process.returncode or stdout is None:
            return {}
        pids: dict[str, int] = json.loads(stdout.read())
        return pids
