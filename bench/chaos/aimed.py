"""Faults that are aimed: the box stands at a place, something is struck, and the run goes on to the same bytes."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from bench.chaos.aims import JOB, POWER, WITH_A_JOB, Aim
from bench.chaos.lives import JUDGED, RELEASE_SECONDS, Lives
from bench.chaos.places import Gone, Places
from bench.chaos.report import Played
from bench.chaos.scene import (
    PATIENCE,
    Refused,
    kill,
    of_everything,
    of_service,
    of_workers,
    post,
    stopped,
    worker_names,
)
from gpu_worker import processes
from optimize_site.processes import Identity
from tests.e2e import running
from tests.e2e.conftest import wait_until
from tests.e2e.http import Http

STOPPED_SECONDS = 1.0
NEAR = 0.005
"""Seconds between two looks at what must be met in its midst."""
SUPERVISOR = "the supervisor"


class Passage:
    """One run past its aims, in the order in which it comes to their places."""

    def __init__(self, http: Http, lives: Lives, life: str, aims: Sequence[Aim]) -> None:
        self.http, self.box, self.lives, self.life, self.aims = http, http.box, lives, life, aims
        self.places = Places(self.box)
        self.run_id = ""
        self.done, self.missed = list[tuple[str, str]](), list[str]()

    def play(self, number: int) -> Played:
        """Start the run, strike at each place, and hold the run against the one that nothing happened to."""
        began, self.lives.attempts = time.monotonic(), 0
        with self.places.installed(), ThreadPoolExecutor(2, thread_name_prefix="asking") as pool:
            self.places.bar([aim.phase for aim in self.aims])
            self._pass_all(pool, pool.submit(self.lives.start, self.life))
        lost = [f"{self.life}: {what}" for what in self.lives.lost_of(self.life, self.run_id, set())]
        lost += self.lives.left_over(within=RELEASE_SECONDS if self.life == JUDGED else 0)
        return Played(number, (self.life,), round(time.monotonic() - began), self.lives.attempts,
                      tuple(self.done), tuple(lost), missed=tuple(self.missed))

    def _pass_all(self, pool: ThreadPoolExecutor, started: Future[str]) -> None:
        """The request that starts the run, and the one that resumes it, may stand at a place themselves."""
        try:
            for aim in self.aims:
                if started.done() or aim.phase in WITH_A_JOB:
                    self.run_id = started.result()
                if aim.phase == "PAUSED":
                    pool.submit(self._resume)
                self._pass(aim)
            self.run_id = started.result()
        finally:
            for aim in self.aims:
                self.places.let_go(aim.phase)

    def _pass(self, aim: Aim) -> None:
        """Strike where the run stands. Its job stands still until the box is there again: it would be over by then."""
        try:
            job = self._asked_to_pause(aim) if aim.phase == "PAUSING" else self._standing(aim)
        except Gone:
            self.missed.append(str(aim))
            return
        try:
            before = self._restarts(aim)
            if self._strike(aim, job):
                self.done.append((aim.kind, f"{aim.kind}, in {aim.phase}"))
            else:
                self.missed.append(str(aim))
            self.places.let_go(aim.phase)
            wait_until(lambda: self._is_back(before), PATIENCE, f"the box after: {aim}")
        finally:
            _wake(job)

    # Where it stands -------------------------------------------------------------------------------------------------

    def _standing(self, aim: Aim) -> list[Identity]:
        """The run's job, which stands still as the box does."""
        self.places.await_stand(aim.phase, self.run_id)
        return self._halted_job() if aim.phase in WITH_A_JOB else []

    def _asked_to_pause(self, aim: Aim) -> list[Identity]:
        """A job that is to be struck while its run pauses has not heard of it yet; any other one saved, and is gone."""
        wait_until(self._trains, PATIENCE, "a job that trains", NEAR)
        job = self._halted_job()
        try:
            self._ask("pause", checkpoint="save")
            if aim.whom in JOB:
                wait_until(lambda: self.places.phase_of(self.run_id) == "PAUSING", PATIENCE, "the pause", NEAR)
                return job
        except BaseException:
            _wake(job)
            raise
        _wake(job)
        return self._standing(aim)

    def _trains(self) -> bool:
        phase = self.places.phase_of(self.run_id)
        if phase in running.OVER:
            raise Gone(phase)
        return phase == "TRAINING" and bool(self._of_attempt("the job"))

    def _halted_job(self) -> list[Identity]:
        job = self._of_attempt("the job")
        for process in job:
            process.send(signal.SIGSTOP)
        return job

    # What is struck --------------------------------------------------------------------------------------------------

    def _strike(self, aim: Aim, job: list[Identity]) -> bool:
        """Whether there was something to strike."""
        found = of_everything(self.box) if aim.kind == POWER else self._found(aim.whom)
        if not found:
            return False
        if aim.kind.startswith("stop"):
            self._hold(aim, found)
            return True
        is_killed = kill(found)
        if aim.whom == "the shepherd":
            _wake(job)  # it ends with its shepherd, but not in its sleep
        if aim.kind == POWER or aim.whom == SUPERVISOR:
            self._bring_up(aim)
        return is_killed

    def _hold(self, aim: Aim, found: list[Identity]) -> None:
        """Stand still while the box goes on, where a database is left that can be told so."""
        with stopped(found):
            if aim.whom not in ("postgres", SUPERVISOR):
                self.places.let_go(aim.phase)
            time.sleep(STOPPED_SECONDS)

    def _bring_up(self, aim: Aim) -> None:
        """The next `up` comes past the place: it is let go as soon as there is a database."""
        with ThreadPoolExecutor(1) as beside:
            letting = beside.submit(self.places.let_go, aim.phase)
            self.box.up()
            letting.result()

    def _found(self, whom: str) -> list[Identity]:
        if whom in JOB:
            return self._of_attempt(whom)
        if whom == "every device worker":
            return of_workers(self.box)
        return of_service(self.box, whom.removeprefix("the "))

    def _of_attempt(self, whom: str) -> list[Identity]:
        attempt = running.attempt_of(self.box, self.run_id)
        found = dict(zip(("the shepherd", "the job"), processes.recorded(attempt) if attempt else (), strict=False))
        return [found[whom]] if whom in found and found[whom].is_alive() else []

    # That it comes back ----------------------------------------------------------------------------------------------

    def _restarts(self, aim: Aim) -> dict[str, int]:
        """How often the services were started that are about to be killed; a supervisor counts anew."""
        if not aim.kind.startswith("kill") or aim.whom in (*JOB, SUPERVISOR):
            return {}
        names = worker_names(self.box) if aim.whom == "every device worker" else [aim.whom]
        return {name: self.box.service(name)["restarts"] for name in names}

    def _is_back(self, before: dict[str, int]) -> bool:
        return all(self.box.service(name)["restarts"] > count for name, count in before.items()) and self.box.is_ready()

    def _resume(self) -> None:
        """Once the run rests: a box that is slow would refuse to go on with one that is still coming to it."""
        wait_until(lambda: self.places.phase_of(self.run_id) in {"PAUSED", *running.OVER}, PATIENCE, "the rest", NEAR)
        self._ask("resume")

    def _ask(self, what: str, **body: str) -> None:
        """An operator's request; one that the box refuses came too late."""
        with suppress(Refused):
            post(self.http, f"/v1/training/runs/{self.run_id}/{what}", body)


def _wake(job: list[Identity]) -> None:
    for process in job:
        process.send(signal.SIGCONT)
