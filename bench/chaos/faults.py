"""How each fault is done to a real box. Each function says whether it found something to do it to."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import psutil
import psycopg
from celery import Celery
from redis import Redis

from bench.chaos.schedule import STEPS, Fault
from gpu_worker import processes
from optimize_site.kernel.doorbell import ADVANCE, LOOK, device_queue
from optimize_site.processes import Identity
from tests.e2e import running
from tests.e2e.conftest import Box, wait_until
from tests.e2e.http import Http

PATIENCE = 120.0
BUSY_SECONDS = 5.0
"""For how long a job's next save, or its next figures, are waited for."""
ENDING_SECONDS = 600.0
BESIDE = ThreadPoolExecutor(4, thread_name_prefix="beside")
SLOTS = 2
WRITTEN_TIMES = (
    ("kernel_lease", ("expires_at", "acquired_at"), "released_at IS NULL"),
    ("kernel_attempt", ("started_at",), "ended_at IS NULL"),
    ("runs_run", ("phase_since", "queued_at"), "ended_at IS NULL"),
    ("kernel_blob", ("held_at",), "TRUE"),
)
FULL = "the disk was full"
"""Stands among what was damaged: a run may have ended for it."""
STATE_FILES = ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json",
               "position.json", "weights.manifest.json", "state.manifest.json")  # fmt: skip


@dataclass
class Scene:
    """Where a fault strikes: the box, one run of the round and its length, how to start another run, what was damaged
    and cancelled so far, and the cancels that wait for their moment beside the other faults."""

    box: Box
    http: Http
    run_id: str
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


# Processes -----------------------------------------------------------------------------------------------------------


def _of_service(scene: Scene, name: str) -> list[Identity]:
    """The process of a service; none while it is being started."""
    if name == "supervisor":
        return [scene.box.process(name)]
    found = scene.box.service(name)
    return [Identity(found["pid"], found["started"])] if found["pid"] else []


def _workers(scene: Scene) -> list[str]:
    return [service["name"] for service in scene.box.status()["services"] if service["name"].startswith("device/")]


def _of_attempt(scene: Scene, *which: str) -> list[Identity]:
    """Shepherd and job of the run's newest attempt, as far as they live."""
    if scene.attempt is None:
        return []
    found = dict(zip(("shepherd", "job"), processes.recorded(scene.attempt), strict=False))
    return [found[name] for name in which if name in found and found[name].is_alive()]


def _kill(found: Iterable[Identity]) -> bool:
    found = list(found)
    for process in found:
        process.send(signal.SIGKILL)
    return bool(found) and all(process.wait(10) for process in found)


def _hold(found: Iterable[Identity], seconds: float) -> bool:
    """Stop processes and what they began for a while."""
    family = [*found]
    for process in list(family):
        family += _begun_by(process)
    for process in family:
        process.send(signal.SIGSTOP)
    time.sleep(seconds)
    for process in reversed(family):
        process.send(signal.SIGCONT)
    return bool(family)


def _begun_by(process: Identity) -> list[Identity]:
    try:
        pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    except psutil.Error:
        return []
    return [found for pid in pids if (found := Identity.of(pid)) is not None]


def kill_job(scene: Scene, fault: Fault, *which: str) -> bool:
    return _kill(_of_attempt(scene, *which))


def kill_saving_job(scene: Scene, fault: Fault) -> bool:
    """The job stands still with a save half written when it dies: later in the save, the higher the fault's pick."""
    job, deadline = _of_attempt(scene, "job"), time.monotonic() + BUSY_SECONDS
    saves = scene.attempt / "snapshots" if scene.attempt is not None else Path("/nowhere")
    while job and job[0].is_alive() and time.monotonic() < deadline:
        if not _is_saving(saves):
            time.sleep(0.001)
            continue
        time.sleep(0.02 * fault.pick)
        job[0].send(signal.SIGSTOP)
        if _is_saving(saves):
            return _kill(job)
        job[0].send(signal.SIGCONT)
    return False


def _is_saving(saves: Path) -> bool:
    return any(saves.glob(".step-*.partial"))


def stop_job(scene: Scene, fault: Fault) -> bool:
    return _hold(_of_attempt(scene, "job"), fault.lasts)


def kill_service(scene: Scene, fault: Fault, name: str) -> bool:
    return _kill(_of_service(scene, name))


def stop_service(scene: Scene, fault: Fault, name: str) -> bool:
    return _hold(_of_service(scene, name), fault.lasts)


def kill_worker(scene: Scene, fault: Fault) -> bool:
    return _kill(_of_service(scene, _picked(_workers(scene), fault.pick)))


def stop_worker(scene: Scene, fault: Fault) -> bool:
    return _hold(_of_service(scene, _picked(_workers(scene), fault.pick)), fault.lasts)


def kill_workers(scene: Scene, fault: Fault) -> bool:
    return _kill(process for name in _workers(scene) for process in _of_service(scene, name))


def kill_storing_worker(scene: Scene, fault: Fault) -> bool:
    """A worker stands inside the transaction that stores figures when it dies: they wait for a table that is held."""
    waits = ("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state = 'active'"
             " AND query LIKE 'INSERT INTO \"runs_metric\"%'")
    try:
        with _database(scene) as looking, _database(scene) as holding, holding.transaction():
            holding.execute("LOCK TABLE runs_metric IN SHARE MODE")
            deadline = time.monotonic() + BUSY_SECONDS
            while not looking.execute(waits).fetchone():
                if time.monotonic() > deadline or not _of_attempt(scene, "job"):
                    return False
                time.sleep(0.005)
            return kill_workers(scene, fault)
    except psycopg.OperationalError:
        return False


def kill_supervisor(scene: Scene, fault: Fault) -> bool:
    _kill(_of_service(scene, "supervisor"))
    scene.box.up()
    return True


def cut_power(scene: Scene, fault: Fault) -> bool:
    """Everything of the box ends at once: services, prepared process, shepherds, jobs."""
    names = ["supervisor", *(service["name"] for service in scene.box.status()["services"])]
    found = [process for name in names for process in _of_service(scene, name)]
    found += [child for process in list(found) for child in _begun_by(process)]
    attempts = (scene.box.home / "attempts").iterdir()
    found += [process for folder in attempts for process in processes.recorded(folder) if process.is_alive()]
    _kill(found)
    scene.box.up()
    return True


def restart(scene: Scene, fault: Fault) -> bool:
    """An orderly stop, which asks jobs to save, and the next start."""
    scene.box.down()
    scene.box.up()
    return True


# Messages and the clock ----------------------------------------------------------------------------------------------


def lose_messages(scene: Scene, fault: Fault) -> bool:
    """Whatever waits in the broker is gone."""
    address = scene.box.services()["redis_url"].partition("://")[2]
    try:
        Redis(unix_socket_path=address).flushall()
    except OSError:
        return False
    return True


def double_messages(scene: Scene, fault: Fault) -> bool:
    """Every bell rings five times."""
    return _ring(scene, [*((LOOK, device_queue("cpu", slot)) for slot in range(SLOTS)), (ADVANCE, "control")] * 5)


def _ring(scene: Scene, bells: list[tuple[str, str]]) -> bool:
    celery = Celery(broker=scene.box.services()["redis_url"])
    try:
        for task, queue in bells:
            celery.send_task(task, queue=queue, ignore_result=True, retry=False)
    except Exception:  # a broker that is away at this moment, in any of the library's ways
        return False
    return True


def set_clock(scene: Scene, fault: Fault, hours: int) -> bool:
    """Where the box wrote down a time it now is so many hours off: the ends of leases, the beginnings of attempts and
    phases, the places in the queue, when bytes were last asked for, and the job's control file."""
    if scene.attempt is None or not _of_attempt(scene, "job"):
        return False
    try:
        with _database(scene) as connection, connection.transaction():
            for table, columns, which in WRITTEN_TIMES:
                moved = ", ".join(f"{name} = {name} - make_interval(hours => {hours})" for name in columns)
                connection.execute(f"UPDATE {table} SET {moved} WHERE {which}")
    except psycopg.OperationalError:
        return False
    written = time.time() - 3600 * hours
    os.utime(scene.attempt / "control.json", (written, written))
    return True


def _database(scene: Scene) -> psycopg.Connection[Any]:
    return psycopg.connect(scene.box.services()["database_url"], connect_timeout=2, autocommit=True)


def wake_late(scene: Scene, fault: Fault) -> bool:
    """A worker stands still while its job dies and its lease runs out, so that the reconciler settles the attempt and
    frees the slot; then it wakes."""
    job = _of_attempt(scene, "shepherd", "job")
    worker = [process for name in _workers(scene) for process in _of_service(scene, name)]
    if not job or not worker:
        return False
    for process in worker:
        process.send(signal.SIGSTOP)
    try:
        _kill(job)
        return _settled_without_worker(scene)
    except psycopg.OperationalError:
        return False
    finally:
        for process in worker:
            process.send(signal.SIGCONT)


def _settled_without_worker(scene: Scene) -> bool:
    """Let the run's lease be long over; whether somebody freed the slot."""
    held = "FROM kernel_lease WHERE released_at IS NULL AND holder_id = %s"
    with _database(scene) as connection:
        connection.execute("UPDATE kernel_lease SET expires_at = now() - interval '1 hour' WHERE released_at IS NULL"
                           " AND holder_id = %s", [scene.run_id])
        deadline = time.monotonic() + PATIENCE
        while connection.execute(f"SELECT 1 {held}", [scene.run_id]).fetchone():
            _ring(scene, [(ADVANCE, "control")])
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
    return True


# Operators -----------------------------------------------------------------------------------------------------------


def pause(scene: Scene, fault: Fault, checkpoint: str) -> bool:
    """Pause, wait for the rest, and let two people resume at once."""
    if scene.ask(f"{scene.path}/pause", {"checkpoint": checkpoint}) is None:
        return False
    run = scene.http.follow(scene.path, "phase", {"PAUSED", *running.OVER})
    if run["phase"] == "PAUSED":
        assert run["pause"]["resourcesReleased"], run["pause"]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: scene.ask(f"{scene.path}/resume", {}), range(2)))
    return True


def cancel(scene: Scene, fault: Fault, *, as_it_ends: bool = False) -> bool:
    """Another run, cancelled when it has got somewhere, or in a race with its end."""
    run_id = scene.another()
    scene.cancelled.append(run_id)
    if as_it_ends:
        scene.aside.append(BESIDE.submit(_race, scene, run_id, fault.lasts * 0.2))
        return True
    time.sleep(fault.lasts * 2)
    return scene.ask(f"/v1/training/runs/{run_id}/cancel", {}) is not None


def _race(scene: Scene, run_id: str, after: float) -> None:
    """Cancel a run as it ends: it completes, or it is cancelled."""
    wait_until(lambda: _is_ending(scene, run_id), ENDING_SECONDS, "the end of the run that is to be cancelled", 0.15)
    time.sleep(after)
    scene.ask(f"/v1/training/runs/{run_id}/cancel", {})


def _is_ending(scene: Scene, run_id: str) -> bool:
    run = running.run_of(scene.http, run_id)
    return run["phase"] in running.OVER or (run["observedStep"] or 0) >= STEPS - 1


# Damage --------------------------------------------------------------------------------------------------------------


def damage(scene: Scene, fault: Fault, how: Callable[[Path, float], None]) -> bool:
    """Spoil a file of the newest save, and end the job, so that somebody will want to go on from it."""
    deadline = time.monotonic() + BUSY_SECONDS
    while (job := _of_attempt(scene, "job", "shepherd")) and not (save := _newest_save(scene)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    if not job or not save:
        return False
    _kill(job)
    path = save / _picked(STATE_FILES, fault.pick)
    if not path.exists():
        path = save / STATE_FILES[0]
    path.chmod(0o600)
    how(path, fault.pick)
    scene.damaged.add(save.name)
    return True


def _newest_save(scene: Scene) -> Path | None:
    saves = (scene.attempt / "snapshots").glob("step-*") if scene.attempt is not None else ()
    return max(saves, key=lambda path: int(path.name[5:]), default=None)


def fill_disk(scene: Scene, fault: Fault) -> bool:
    """No room for anything in the attempts' folders for a while, where they lie on a disk of their own."""
    attempts = scene.box.home / "attempts"
    if not attempts.is_mount():
        return False
    scene.damaged.add(FULL)
    filler = attempts / "full"
    filler.mkdir()
    try:
        with (filler / "file").open("wb") as file:
            _take_all(file.fileno())
        time.sleep(fault.lasts * 2)
    finally:
        shutil.rmtree(filler)
    return True


def _take_all(descriptor: int) -> None:
    """Grow a file until nothing more fits, in ever smaller pieces: others write meanwhile."""
    taken, piece = 0, 1 << 28
    while piece >= mmap.PAGESIZE:
        try:
            os.posix_fallocate(descriptor, taken, piece)
            taken += piece
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            piece //= 2


def flip(path: Path, pick: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(pick * len(data))] ^= 1 << int(pick * 1000) % 8
    path.write_bytes(data)


def shorten(path: Path, pick: float) -> None:
    os.truncate(path, int(pick * path.stat().st_size))


def _picked(choices: Any, pick: float) -> Any:
    return choices[int(pick * len(choices))]


OF_A_RUN = frozenset({
    "kill the job", "kill the shepherd", "kill the job and its shepherd", "kill the job inside a save", "stop the job",
    "wake a device worker too late", "kill a device worker as it stores", "pause and save", "pause at the latest",
    "set the clock forward", "set the clock back", "flip a bit", "cut a file short"})
"""What needs a run's own job, and so finds nothing once the run is over; the rest strikes the box and what runs."""

FAULTS: dict[str, Callable[[Scene, Fault], bool]] = {
    "kill the job": lambda scene, fault: kill_job(scene, fault, "job"),
    "kill the shepherd": lambda scene, fault: kill_job(scene, fault, "shepherd"),
    "kill the job and its shepherd": lambda scene, fault: kill_job(scene, fault, "shepherd", "job"),
    "kill the job inside a save": kill_saving_job,
    "stop the job": stop_job,
    "kill a device worker": kill_worker,
    "stop a device worker": stop_worker,
    "wake a device worker too late": wake_late,
    "kill every device worker": kill_workers,
    "kill a device worker as it stores": kill_storing_worker,
    "kill the supervisor": kill_supervisor,
    "stop the supervisor": partial(stop_service, name="supervisor"),
    **{f"kill {name}": partial(kill_service, name=name) for name in ("control", "web", "postgres", "valkey")},
    **{f"stop {name}": partial(stop_service, name=name) for name in ("control", "web", "postgres", "valkey")},
    "lose the messages": lose_messages,
    "double the messages": double_messages,
    "cut the power": cut_power,
    "restart the box": restart,
    "pause and save": partial(pause, checkpoint="save"),
    "pause at the latest": partial(pause, checkpoint="latest"),
    "cancel another run": cancel,
    "cancel another run as it ends": partial(cancel, as_it_ends=True),
    "set the clock forward": partial(set_clock, hours=1),
    "set the clock back": partial(set_clock, hours=-1),
    "fill the disk": fill_disk,
    "flip a bit": partial(damage, how=flip),
    "cut a file short": partial(damage, how=shorten),
}
