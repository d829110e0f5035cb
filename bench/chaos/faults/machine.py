"""Faults of the machine: the power cut, the box put down and up again, the clock set."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import psycopg

from bench.chaos.scene import Scene, database, kill, of_everything
from bench.chaos.schedule import Fault

WRITTEN_TIMES = (
    ("kernel_lease", ("expires_at", "acquired_at"), "released_at IS NULL"),
    ("kernel_attempt", ("started_at",), "ended_at IS NULL"),
    ("runs_run", ("phase_since", "queued_at"), "ended_at IS NULL"),
    ("kernel_blob", ("held_at",), "TRUE"),
)


def cut_power(scene: Scene, fault: Fault) -> bool:
    """Everything of the box ends at once: services, prepared process, shepherds, jobs."""
    kill(of_everything(scene.box))
    scene.box.up()
    return True


def restart(scene: Scene, fault: Fault) -> bool:
    """An orderly stop, which asks jobs to save, and the next start."""
    scene.box.down()
    scene.box.up()
    return True


def set_clock(scene: Scene, fault: Fault, hours: int) -> bool:
    """Where the box wrote down a time it now is so many hours off: the ends of leases, the beginnings of attempts and
    phases, the places in the queue, when bytes were last asked for, and the job's control file."""
    if scene.attempt is None or not scene.of_attempt("job"):
        return False
    try:
        with database(scene.box) as connection, connection.transaction():
            for table, columns, which in WRITTEN_TIMES:
                moved = ", ".join(f"{name} = {name} - make_interval(hours => {hours})" for name in columns)
                connection.execute(f"UPDATE {table} SET {moved} WHERE {which}")
    except psycopg.OperationalError:
        return False
    written = time.time() - 3600 * hours
    os.utime(scene.attempt / "control.json", (written, written))
    return True


OF_A_JOB: dict[str, Callable[[Scene, Fault], bool]] = {
    "set the clock forward": partial(set_clock, hours=1),
    "set the clock back": partial(set_clock, hours=-1),
}
OF_THE_BOX: dict[str, Callable[[Scene, Fault], bool]] = {
    "cut the power": cut_power,
    "restart the box": restart,
}
