"""The supervisor: starts the services in order, keeps them running, stops them in order."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpu_worker.launch import zygote_process
from optimize_site.appliance.adoption import Nursery
from optimize_site.appliance.console import Console
from optimize_site.appliance.documents import read_document, write_document
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.logs import rotate
from optimize_site.appliance.places import Places
from optimize_site.appliance.roster import DEVICE_PREFIX
from optimize_site.appliance.service import Service
from optimize_site.appliance.steps import Step
from optimize_site.appliance.unit import Unit
from optimize_site.processes import Identity, start_time

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SERVERS = ("postgres", "valkey")
BUSY_SECONDS, IDLE_SECONDS = 0.1, 1.0
ROTATE_SECONDS = 30.0


class StopRequested(Exception):
    """Somebody asked the box to stop."""


class Supervisor:
    """Keeps services running until it is asked to stop. Everything happens in one thread, in `_pump`."""

    def __init__(self, places: Places, console: Console) -> None:
        self._places = places
        self._console = console
        self._units: list[Unit] = []
        self._requests = 0
        self._reported: set[str] = set()
        self._written: dict[str, Any] = {}
        self._rotated_at = time.monotonic()
        self._since = time.time()
        self._wake = -1
        self._nursery: Nursery | None = None
        self.phase = "starting"
        self.web_url = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take signals while the services run, and stop every service at the end, whatever happens inside."""
        self._wake, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._note_request)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            yield
        finally:
            self._stop_all()

    def start(self, *services: Service) -> None:
        """Start services and wait until all are ready; raises ApplianceError where one does not come up."""
        units = [Unit(service, self._places.logs) for service in services]
        self._units.extend(units)
        self.wait_until(lambda: all(unit.state == "ready" for unit in units))

    def adopt(self, nursery: Nursery, services: list[Service]) -> None:
        """Start services by having them forked, now and whenever one ended; where that fails they start as programs."""
        units = [Unit(service, self._places.logs, nursery.bear) for service in services]
        self._nursery = nursery
        for service in services:
            service.before_start()
        nursery.order(services, self._places.logs)
        self.wait_until(nursery.is_done)
        for name, pid in nursery.born().items():
            next(unit for unit in units if unit.service.name == name).adopt(pid)
        self._units.extend(units)

    def finish(self, step: Step) -> str:
        """Wait for a step while the services are watched; what it printed."""
        try:
            self.wait_until(step.is_done)
        except BaseException:
            step.stop()
            raise
        return step.output()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until the condition holds; gives up where a service fails again and again."""
        while not condition():
            self._pump(BUSY_SECONDS)
            self._give_up_on_failing()
            self._report(lambda unit: unit.restarts > 0)
            if self._requests:
                raise StopRequested

    def all_ready(self) -> bool:
        """Whether every service is ready."""
        return all(unit.state == "ready" for unit in self._units)

    def keep_running(self) -> None:
        """Restart what ends, until somebody asks to stop."""
        self.phase = "ready"
        while not self._requests:
            self._pump(IDLE_SECONDS if self.all_ready() else BUSY_SECONDS)
            self._report(lambda unit: unit.state == "failing")

    def write_status(self) -> None:
        """Keep status.json true; written only where something changed."""
        pid = os.getpid()
        document = {
            "version": 1, "phase": self.phase, "since": self._since, "webUrl": self.web_url,
            "supervisor": {"pid": pid, "started": start_time(pid)},
            "services": [unit.document() for unit in self._units],
        }  # fmt: skip
        if document != self._written:
            write_document(self._places.status, document)
            self._written = document

    def _pump(self, seconds: float) -> None:
        for unit in self._units:
            unit.tick()
        self.write_status()
        if time.monotonic() - self._rotated_at > ROTATE_SECONDS:
            self._rotated_at = time.monotonic()
            rotate(self._places.logs)
        select.select([self._wake], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 1024)

    def _note_request(self, *_: Any) -> None:
        self._requests += 1

    def _give_up_on_failing(self) -> None:
        for unit in self._units:
            if unit.state == "failing":
                raise ApplianceError(
                    f"{unit.service.name} does not start: it {unit.last_error}.",
                    log=unit.tail(),
                    hint=f"Its whole log is {unit.log}.",
                )

    def _report(self, is_worth_telling: Callable[[Unit], bool]) -> None:
        """Say once why a service is started again, with its last words, and once that it is well again."""
        for unit in self._units:
            name = unit.service.name
            if unit.state == "ready":
                if name in self._reported:
                    self._reported.discard(name)
                    self._console.say(f"{name} is ready again.")
            elif is_worth_telling(unit) and name not in self._reported:
                self._reported.add(name)
                self._console.say(f"{name} {unit.last_error}; it is tried again.\n{unit.tail()}")

    def _stop_all(self) -> None:
        """Device workers first, so that their jobs can save; the database last, so that all could write to it."""
        self.phase = "stopping"
        workers = [unit for unit in self._units if unit.service.name.startswith(DEVICE_PREFIX)]
        if any(unit.is_running() for unit in workers):
            self._console.say("Stopping; running jobs save first (a second signal leaves them to be adopted).")
        self._stop(workers)
        if self._nursery:
            self._nursery.end()
        self._end_prepared()
        servers = [unit for unit in self._units if unit.service.name in SERVERS]
        self._stop([unit for unit in self._units if unit not in workers and unit not in servers])
        for unit in reversed(servers):
            self._stop([unit])
        self.phase = "stopped"
        self.write_status()

    def _end_prepared(self) -> None:
        """The process that the workers fork jobs from would wait for the next job; the jobs themselves go on."""
        if found := zygote_process(self._places.run):
            found.end(seconds=5)

    def _stop(self, units: list[Unit]) -> None:
        requests = self._requests
        deadline = time.monotonic() + max((unit.service.stop_seconds for unit in units), default=0)
        for unit in units:
            unit.stop()
        while any(unit.is_running() for unit in units) and time.monotonic() < deadline and self._requests == requests:
            self._pump(BUSY_SECONDS)
        for unit in units:
            unit.kill()
            unit.note_stopped()


def end_left_overs(places: Places) -> None:
    """End what a supervisor that was killed may have left; nothing of the sort outlives it for long by itself."""
    for service in read_document(places.status).get("services", []):
        if service.get("pid") and service.get("started"):
            first = signal.SIGINT if service["name"] == "postgres" else signal.SIGTERM
            Identity(service["pid"], service["started"]).end(first, seconds=60 if service["name"] == "postgres" else 5)
