"""Where a fault strikes: a box, its processes, and one of the runs it meets."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import psutil
import psycopg

from gpu_worker import processes
from optimize_site.processes import Identity
from tests.e2e import running
from tests.e2e.conftest import Box
from tests.e2e.http import Http

PATIENCE = 120.0


class Refused(Exception):
    """The box said no, and why."""


def post(http: Http, path: str, body: Any) -> Any:
    """Send a document to a box that may be coming back. Raises Refused."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return http.post(path, body)
        except HTTPError as error:
            if error.code < 500:
                raise Refused(error.read().decode(errors="replace")) from error
        except (URLError, OSError):
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} was not answered in {PATIENCE:.0f} s")
        time.sleep(0.1)


@dataclass
class Scene:
    """A box, one run of a round, its kind and length, how to start another run, what was damaged and cancelled so far,
    and the cancels that wait for their moment beside the other faults."""

    box: Box
    http: Http
    run_id: str
    life: str
    steps: int
    another: Callable[[], str]
    damaged: set[str]
    cancelled: list[str]
    aside: list[Future[None]]

    def ask(self, path: str, body: Any) -> Any:
        """An operator's request; None where the box refuses it, since the run was faster."""
        try:
            return post(self.http, path, body)
        except Refused:
            return None

    @property
    def path(self) -> str:
        return f"/v1/training/runs/{self.run_id}"

    @property
    def attempt(self) -> Path | None:
        """The folder of the run's newest attempt."""
        return running.attempt_of(self.box, self.run_id)

    def of_attempt(self, *which: str) -> list[Identity]:
        """Shepherd and job of the run's newest attempt, as far as they live."""
        if self.attempt is None:
            return []
        found = dict(zip(("shepherd", "job"), processes.recorded(self.attempt), strict=False))
        return [found[name] for name in which if name in found and found[name].is_alive()]


def of_service(box: Box, name: str) -> list[Identity]:
    """The process of a service; none while it is being started."""
    if name == "supervisor":
        return [box.process(name)]
    found = box.service(name)
    return [Identity(found["pid"], found["started"])] if found["pid"] else []


def worker_names(box: Box) -> list[str]:
    return [service["name"] for service in box.status()["services"] if service["name"].startswith("device/")]


def of_workers(box: Box) -> list[Identity]:
    """Every device worker that runs."""
    return [process for name in worker_names(box) for process in of_service(box, name)]


def of_everything(box: Box) -> list[Identity]:
    """All that runs of a box: supervisor, services, the process that jobs are forked from, shepherds, jobs."""
    names = ["supervisor", *(service["name"] for service in box.status()["services"])]
    found = [process for name in names for process in of_service(box, name)]
    found += [child for process in list(found) for child in begun_by(process)]
    attempts = (box.home / "attempts").iterdir()
    return found + [process for folder in attempts for process in processes.recorded(folder) if process.is_alive()]


def begun_by(process: Identity) -> list[Identity]:
    """The processes that one began, and those that they began."""
    try:
        pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    except psutil.Error:
        return []
    return [found for pid in pids if (found := Identity.of(pid)) is not None]


def kill(found: Iterable[Identity]) -> bool:
    """kill -9 at once; whether there was something and it is gone."""
    found = list(found)
    for process in found:
        process.send(signal.SIGKILL)
    return bool(found) and all(process.wait(10) for process in found)


@contextmanager
def stopped(found: Iterable[Identity]) -> Iterator[list[Identity]]:
    """Processes and what they began stand still inside the block."""
    family = [*found]
    for process in list(family):
        family += begun_by(process)
    for process in family:
        process.send(signal.SIGSTOP)
    try:
        yield family
    finally:
        for process in reversed(family):
            process.send(signal.SIGCONT)


def hold(found: Iterable[Identity], seconds: float) -> bool:
    """Stop processes and what they began for a while; whether there were any."""
    with stopped(found) as family:
        time.sleep(seconds)
    return bool(family)


def database(box: Box) -> psycopg.Connection[Any]:
    """A session of its own. Raises psycopg.OperationalError while the box has none to give."""
    return psycopg.connect(box.services()["database_url"], connect_timeout=2, autocommit=True)
