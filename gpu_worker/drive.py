"""Drives one attempt from its lease to its end: start or adopt the job, store its events, renew, settle."""

import errno
import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, transaction

from endpoints.queries import count_judged
from gpu_worker import claims, processes, stalls, tail
from gpu_worker.control_file import write_control
from gpu_worker.engines import plans
from gpu_worker.errors import LeaseLost
from gpu_worker.kinds import KINDS, row_of
from gpu_worker.launch import start_job
from optimize_site.kernel import clock
from optimize_site.kernel import events as bell
from optimize_site.kernel.catalog import load_catalog
from optimize_site.kernel.conf import setting
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.work import Ask, Ending, Outcome, attempt_folder

log = logging.getLogger(__name__)
POLL_SECONDS = 0.1
RENEW_SECONDS = 5.0
WATCH_SECONDS = 0.5
PATIENCE = {"stop": 60.0, "drop": 60.0, "pause": 600.0}
BIRTH_SECONDS = 15.0
UNREACHABLE_SECONDS, FULL_SECONDS = 0.5, 1.0
UNREACHABLE = (OperationalError, InterfaceError)
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
Starter = Callable[..., int]
ShouldStop = Callable[[], bool]


def serve_slot(device_uuid: str, slot: int, *, should_stop: ShouldStop, starter: Starter = start_job) -> None:
    """Adopt what the slot still holds, then claim and drive work until nothing waits or the worker is to stop."""
    while not should_stop():
        try:
            attempt = claims.adopt(device_uuid, slot) or claims.claim(device_uuid, slot)
            driver = Driver(attempt, should_stop=should_stop, starter=starter) if attempt else None
        except UNREACHABLE as error:
            _await_database(error)  # the bell that woke this worker does not ring again by itself
            continue
        if driver is None:
            return
        try:
            driver.drive()
        except LeaseLost as lost:
            log.warning("lease lost", extra={"action": "lease_lost", "attempt": driver.attempt.pk,
                                             "reason": lost.detail})


def _await_database(error: Exception) -> None:
    log.warning("database unreachable", extra={"action": "database_wait", "error": str(error)})
    close_old_connections()
    time.sleep(UNREACHABLE_SECONDS)


class Driver:
    """One attempt in this worker's hands."""

    def __init__(self, attempt: Attempt, *, should_stop: ShouldStop, starter: Starter = start_job):
        self.attempt, self.should_stop, self.starter = attempt, should_stop, starter
        self.kind = KINDS[attempt.holder_kind]
        self.folder = attempt_folder(attempt.pk)
        self.renewed_at = 0.0
        self.watched_at = 0.0
        self.asked: Ask = ""
        self.asked_since = 0.0
        self.planned: dict[str, Any] | None = None
        self.stall = stalls.StallWatch(self.folder, limit=float(setting("trainer.jobs.stalled-seconds")),
                                       device_kind=attempt.lease.device.kind,
                                       elsewhere=lambda: count_judged(attempt.holder_kind, attempt.holder_id))

    def drive(self) -> None:
        """Until the job is gone and its end is stored. Raises LeaseLost where another worker took over."""
        while not self._survive(self._begin):
            continue
        while not self._is_over():
            if not self._survive(self._step):
                time.sleep(POLL_SECONDS)
        while not self._survive(self._settle):
            time.sleep(POLL_SECONDS)

    def _survive(self, step: Callable[[], bool | None], *, waits_for_room: bool = True) -> bool:
        """Run a step; an unreachable database or a full disk costs a moment, never the job. Gives whether the step did
        something."""
        try:
            return bool(step())
        except UNREACHABLE as error:
            _await_database(error)
        except OSError as error:
            if not (waits_for_room and is_full(error)):
                raise
            log.warning("disk full", extra={"action": "disk_wait", "error": str(error)})
            time.sleep(FULL_SECONDS)
        return False

    def settle(self) -> None:
        """Only store the end of a job that is gone, or that never came. Whoever starts it yet is told to stop.

        Raises OSError where the disk is full: others wait for whoever settles.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_control(self.folder, self.attempt, "stop")
        while not self._survive(self._settle, waits_for_room=False):
            time.sleep(POLL_SECONDS)

    def _begin(self) -> bool:
        """Start the job, unless an earlier worker already did."""
        if self.attempt.pid is not None or processes.recorded(self.folder):
            self._record_process()
            write_control(self.folder, self.attempt)
            return True
        if (self.folder / "plan.json").exists():
            return self._await_birth()
        return self._start()

    def _start(self) -> bool:
        """The lease is renewed on both sides of the plan, which may take minutes to make or wait for room on the disk:
        nobody is to settle an attempt whose job is about to speak."""
        claims.renew(self.attempt.lease)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self.planned = self.planned or self._make_plan()
            write_control(self.folder, self.attempt)
            _write_json(self.folder / "plan.json", self.planned)
            self.starter(self.folder, env=self._environment())
        except (DatabaseError, LeaseLost):
            raise
        except Exception as error:  # whatever kept the job from starting is the attempt's failure, never the worker's
            if is_full(error):
                raise
            log.exception("job not started", extra={"action": "job_not_started", "attempt": self.attempt.pk})
            self._fail_start(error)
            return True
        return self._await_birth()

    def _make_plan(self) -> dict[str, Any]:
        """Once for all tries to write it down: it reads whole saves, and tells from which one the work goes on."""
        with transaction.atomic():
            claims.lock(self.attempt.lease)
            plan = self._plan()
            self.attempt.save(update_fields=["resumed_step"])
            claims.renew(self.attempt.lease)
        return plan

    def _plan(self) -> dict[str, Any]:
        """The work kind's plan with what every plan states: who it is for, where it runs, on how many threads."""
        device = self.attempt.lease.device
        body = self.kind.plan(row_of(self.attempt.holder_kind, self.attempt.holder_id), self.attempt)
        subject = {"kind": self.attempt.holder_kind, "id": self.attempt.holder_id}
        where = {"kind": "cuda", "uuids": [device.uuid]} if device.kind == "gpu" else {"kind": "cpu", "uuids": []}
        body = dict(body) | {"unwatched_seconds": float(setting("trainer.jobs.unwatched-seconds"))}
        return plans.complete(body, attempt=self.attempt.pk, subject=subject, threads=_threads(device), device=where)

    def _environment(self) -> dict[str, str]:
        device = self.attempt.lease.device
        return {"CUDA_VISIBLE_DEVICES": device.uuid if device.kind == "gpu" else ""}

    def _fail_start(self, error: Exception) -> None:
        event = {"v": 1, "t": clock.now().timestamp(), "type": "failure", "code": "job_not_started",
                 "reason": f"This {self.attempt.holder_kind}'s job could not be started: {error}",
                 "hint": getattr(error, "hint", "")}
        with (self.folder / "events.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")

    def _await_birth(self) -> bool:
        """Wait for the shepherd to write its pid; one that never does is told to stop and counts as lost."""
        deadline = time.monotonic() + BIRTH_SECONDS
        while not processes.recorded(self.folder) and not (self.folder / "exit.json").exists():
            if time.monotonic() > deadline:
                write_control(self.folder, self.attempt, "stop")
                return True
            time.sleep(0.02)
        self._record_process()
        return True

    def _record_process(self) -> None:
        """Raises LeaseLost; a job that was started for an attempt that somebody settled meanwhile is ended."""
        found = processes.recorded(self.folder)
        if not found:
            return
        try:
            with transaction.atomic():
                claims.lock(self.attempt.lease)
                self.attempt.pid, self.attempt.pid_started = found[0].pid, found[0].started
                self.attempt.save(update_fields=["pid", "pid_started"])
        except LeaseLost:
            if Attempt.objects.filter(pk=self.attempt.pk).exclude(ended_at=None).exists():
                processes.end(self.folder)
            raise

    def _is_over(self) -> bool:
        return not processes.any_alive(self.folder)

    def _step(self) -> bool:
        """Keep the lease, store what the job said, and see what is asked of it.

        The lease comes first: this process may have been stopped for so long that another one drives the job.
        """
        now = time.monotonic()
        if now - self.renewed_at >= RENEW_SECONDS:
            self.renewed_at = now
            claims.renew(self.attempt.lease)
            write_control(self.folder, self.attempt, self.asked)
        moved = self.store_events()
        if now - self.watched_at >= WATCH_SECONDS:
            self.watched_at = now
            self._watch(now)
            self._end_stalled(now)
        self._lose_patience(now)
        return moved

    def _watch(self, now: float) -> None:
        """Pass on what is newly asked. A worker that is told to end asks its job to save and end."""
        with transaction.atomic():
            asked = self.kind.ask(row_of(self.attempt.holder_kind, self.attempt.holder_id))
        asked = asked or ("stop" if self.should_stop() else "")
        if asked and asked != self.asked:
            self.asked_since = self.asked_since or now
            self.asked = asked
            write_control(self.folder, self.attempt, asked)

    def _end_stalled(self, now: float) -> None:
        """End a job that has stopped getting on, once what it was at is written down."""
        if not self.stall.is_stalled(now):
            return
        found = stalls.record_stall(self.folder, self.attempt.lease.device, limit=self.stall.limit)
        log.warning("job stalled", extra={"action": "job_stalled", "attempt": self.attempt.pk,
                                          "reason": found.get("noStacks", "")})
        processes.end(self.folder)

    def _lose_patience(self, now: float) -> None:
        if self.asked and now - self.asked_since > PATIENCE[self.asked]:
            processes.end(self.folder)

    def store_events(self) -> bool:
        """Store the next events and the offset behind them in one transaction, so that each lands exactly once."""
        found, offset = tail.read_events(self.folder, self.attempt.events_offset)
        if offset == self.attempt.events_offset:
            return False
        with transaction.atomic():
            claims.lock(self.attempt.lease)
            row = row_of(self.attempt.holder_kind, self.attempt.holder_id)
            self.kind.on_events(row, self.attempt, found)
            Attempt.objects.filter(pk=self.attempt.pk).update(events_offset=offset)
            bell.notify(self.attempt.holder_kind, self.attempt.holder_id)
        self.attempt.refresh_from_db(fields=["events_offset", "first_step", "last_step"])
        return True

    def _settle(self) -> bool:
        """The process is gone: read the rest, then move the row on and free the slot in one transaction."""
        while self.store_events():
            continue
        ending = read_ending(self.folder)
        with transaction.atomic():
            claims.lock(self.attempt.lease)
            Attempt.objects.filter(pk=self.attempt.pk).update(ended_at=clock.now(), outcome=ending.outcome,
                                                             exit=ending.exit)
            self.attempt.refresh_from_db(fields=["ended_at", "outcome", "exit"])  # never the lease: its token fences
            self.kind.on_exit(row_of(self.attempt.holder_kind, self.attempt.holder_id), self.attempt, ending)
            claims.release(self.attempt.lease)
        return True


def _threads(device: Device) -> int:
    """The threads of one job on such a device: what the catalog states, else one for each core of the box.

    Fixed whatever runs beside, so that a job's bytes do not depend on it. Two jobs share the cores without a fight,
    because their threads sleep at a barrier (see launch.job_environment).
    """
    known = load_catalog().devices.get(device.profile)
    return (known.threads if known else 0) or os.cpu_count() or 1


def is_full(error: Exception) -> bool:
    """Whether there was no room on the disk, which passes."""
    return isinstance(error, OSError) and error.errno in FULL


def read_ending(folder: Path) -> Ending:
    """How the attempt ended, from its last event and the shepherd's record."""
    try:
        exit_record: dict[str, Any] = json.loads((folder / "exit.json").read_text())
    except (OSError, ValueError):
        exit_record = {}
    stalled = stalls.recorded_stall(folder)
    if stalled is not None:
        exit_record["stalled"] = stalled
    if exit_record.get("oom_kill"):
        exit_record |= tail.last_pass(folder)
    said = tail.ending(folder)
    outcomes: dict[str, Outcome] = {"finished": "finished", "failure": "failed", "stopped": "stopped"}
    outcome = outcomes[said["type"]] if said else "lost"
    return Ending(outcome, exit_record, tail.last_words(folder / "stderr.log"))


def _write_json(path: Path, body: dict[str, Any]) -> None:
    scratch = path.with_suffix(".part")
    with scratch.open("w") as file:
        json.dump(body, file, default=str)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
