"""Faults of processes: killed, stopped for a while, woken too late, and at the moments at which that hurts most."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

from bench.chaos.faults.messages import ring
from bench.chaos.scene import (
    PATIENCE,
    Scene,
    database,
    hold,
    kill,
    of_service,
    of_workers,
    worker_names,
)
from bench.chaos.schedule import Fault
from optimize_site.kernel.doorbell import ADVANCE

BUSY_SECONDS = 20.0
"""For how long a job's next save, or its next figures, are waited for."""


def kill_job(scene: Scene, fault: Fault, *which: str) -> bool:
    return kill(scene.of_attempt(*which))


def kill_saving_job(scene: Scene, fault: Fault) -> bool:
    """The job stands still with a save half written when it dies: later in the save, the higher the fault's pick."""
    job, deadline = scene.of_attempt("job"), time.monotonic() + BUSY_SECONDS
    saves = scene.attempt / "snapshots" if scene.attempt is not None else Path("/nowhere")
    while job and job[0].is_alive() and time.monotonic() < deadline:
        if not _is_saving(saves):
            time.sleep(0.001)
            continue
        time.sleep(0.02 * fault.pick)
        job[0].send(signal.SIGSTOP)
        if _is_saving(saves):
            return kill(job)
        job[0].send(signal.SIGCONT)
    return False


def _is_saving(saves: Path) -> bool:
    return any(saves.glob(".step-*.partial"))


def stop_job(scene: Scene, fault: Fault) -> bool:
    return hold(scene.of_attempt("job"), fault.lasts)


def kill_service(scene: Scene, fault: Fault, name: str) -> bool:
    return kill(of_service(scene.box, name))


def stop_service(scene: Scene, fault: Fault, name: str) -> bool:
    return hold(of_service(scene.box, name), fault.lasts)


def kill_worker(scene: Scene, fault: Fault) -> bool:
    return kill(of_service(scene.box, _worker(scene, fault)))


def stop_worker(scene: Scene, fault: Fault) -> bool:
    return hold(of_service(scene.box, _worker(scene, fault)), fault.lasts)


def _worker(scene: Scene, fault: Fault) -> str:
    names = worker_names(scene.box)
    return names[int(fault.pick * len(names))]


def kill_workers(scene: Scene, fault: Fault) -> bool:
    return kill(of_workers(scene.box))


def kill_storing_worker(scene: Scene, fault: Fault) -> bool:
    """A worker stands inside the transaction that stores figures when it dies: they wait for a table that is held."""
    waits = ("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state = 'active'"
             " AND query LIKE 'INSERT INTO \"runs_metric\"%'")
    try:
        with database(scene.box) as looking, database(scene.box) as holding, holding.transaction():
            holding.execute("LOCK TABLE runs_metric IN SHARE MODE")
            deadline = time.monotonic() + BUSY_SECONDS
            while not looking.execute(waits).fetchone():
                if time.monotonic() > deadline or not scene.of_attempt("job"):
                    return False
                time.sleep(0.005)
            return kill_workers(scene, fault)
    except psycopg.OperationalError:
        return False


def kill_supervisor(scene: Scene, fault: Fault) -> bool:
    kill(of_service(scene.box, "supervisor"))
    scene.box.up()
    return True


def wake_late(scene: Scene, fault: Fault) -> bool:
    """A worker stands still while its job dies and its lease runs out, so that the reconciler settles the attempt and
    frees the slot; then it wakes."""
    job, workers = scene.of_attempt("shepherd", "job"), of_workers(scene.box)
    if not job or not workers:
        return False
    for process in workers:
        process.send(signal.SIGSTOP)
    try:
        kill(job)
        return _is_settled_without_worker(scene)
    except psycopg.OperationalError:
        return False
    finally:
        for process in workers:
            process.send(signal.SIGCONT)


def _is_settled_without_worker(scene: Scene) -> bool:
    """Let the run's lease be long over; whether somebody freed the slot. A worker that was stopped inside its own
    transaction holds the lease's row and would be waited for without end: OperationalError says so, and it is woken."""
    held = "FROM kernel_lease WHERE released_at IS NULL AND holder_id = %s"
    with database(scene.box) as connection:
        connection.execute("SET lock_timeout = '3s'")
        connection.execute("UPDATE kernel_lease SET expires_at = now() - interval '1 hour' WHERE released_at IS NULL"
                           " AND holder_id = %s", [scene.run_id])
        deadline = time.monotonic() + PATIENCE
        while connection.execute(f"SELECT 1 {held}", [scene.run_id]).fetchone():
            ring(scene, [(ADVANCE, "control")])
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
    return True


SERVERS = ("control", "web", "postgres", "valkey")
OF_A_JOB: dict[str, Callable[[Scene, Fault], bool]] = {
    "kill the job": lambda scene, fault: kill_job(scene, fault, "job"),
    "kill the shepherd": lambda scene, fault: kill_job(scene, fault, "shepherd"),
    "kill the job and its shepherd": lambda scene, fault: kill_job(scene, fault, "shepherd", "job"),
    "kill the job inside a save": kill_saving_job,
    "stop the job": stop_job,
    "wake a device worker too late": wake_late,
    "kill a device worker as it stores": kill_storing_worker,
}
OF_THE_BOX: dict[str, Callable[[Scene, Fault], bool]] = {
    "kill a device worker": kill_worker,
    "stop a device worker": stop_worker,
    "kill every device worker": kill_workers,
    "kill the supervisor": kill_supervisor,
    "stop the supervisor": partial(stop_service, name="supervisor"),
    **{f"kill {name}": partial(kill_service, name=name) for name in SERVERS},
    **{f"stop {name}": partial(stop_service, name=name) for name in SERVERS},
}
