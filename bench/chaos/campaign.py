"""Plays rounds of runs and faults on a box, and holds every run against the same run that nothing happened to."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import islice
from typing import Any

from bench.chaos.faults import FAULTS, OF_A_RUN
from bench.chaos.lives import BRANCHED, RUN_SECONDS, Lives
from bench.chaos.report import Played, Tally, unplayable
from bench.chaos.scene import Scene
from bench.chaos.schedule import BY_PLAN, SAVE_EVERY, STEPS, Fault, Round, rounds
from tests.e2e import running
from tests.e2e.conftest import wait_until
from tests.e2e.http import Http

LOOK_SECONDS = 0.15
"""Between two looks at a run: an answer costs the box as much as an update of the tiny model."""
TRIES = 3
"""How often a fault looks for what it strikes: the one before may just have ended it."""
STILL = {"PAUSED", *running.OVER}


class Campaign:
    """One seed on one box. `tally` may come from an earlier piece of the campaign: it goes on behind its last round."""

    def __init__(self, http: Http, *, seed: int, tally: Tally | None = None,
                 tell: Callable[[str], None] = print) -> None:
        self.http, self.seed, self.tell = http, seed, tell
        self.lives = Lives(http, seed)
        self.tally = tally if tally is not None else Tally()

    def prepare(self) -> None:
        """Each kind of run once, undisturbed."""
        self.lives.prepare()

    def play(self, faults: int) -> Tally:
        """Rounds until so many faults were injected, those of earlier pieces included."""
        for each in islice(rounds(self.seed), self.tally.rounds, None):
            if self.tally.faults >= faults:
                break
            played = self._played(each)
            self.tally.add(played)
            self.tell(str(played))
            if not played.is_whole:
                break
        return self.tally

    def _played(self, each: Round) -> Played:
        try:
            return self.play_round(each)
        except (AssertionError, OSError) as error:
            return unplayable(each.number, each.lives, error)

    def play_round(self, each: Round) -> Played:
        """Start the round's runs, let its faults meet them, and look at what became of them."""
        began, self.lives.attempts, damaged, cancelled = time.monotonic(), 0, set[str](), list[str]()
        aside = list[Future[None]]()

        def begin(life: str, pauses_at: int | None = None) -> Scene:
            run_id = self.lives.start(life, pauses_at=pauses_at)
            return Scene(self.http.box, self.http, run_id, life, BRANCHED if life == "branch" else STEPS,
                         lambda: self.lives.start("sft"), damaged, cancelled, aside)

        scenes = [begin(life, each.pauses_at(number)) for number, life in enumerate(each.lives)]
        over, done, missed = list[Scene](), list[tuple[str, str]](), list[str]()
        for fault in each.faults:
            scene = scenes[fault.life]
            if fault.kind in OF_A_RUN and self._moment(fault, scene)["phase"] in running.OVER:
                over.append(scene)  # the faults before took longer than it did: another one of its kind is met
                scene = scenes[fault.life] = begin(scene.life, fault.step if fault.kind == BY_PLAN else None)
            if phase := self._inject(fault, scene):
                done.append((fault.kind, f"{fault}, in {phase}"))
            else:
                missed.append(fault.kind)
        lost = [f"{scene.life}: {what}" for scene in [*over, *scenes]
                for what in self.lives.lost_of(scene.life, scene.run_id, damaged)]
        for race in aside:
            race.result()
        lost += [f"cancelled: {what}" for run_id in cancelled
                 for what in self.lives.lost_of_cancelled(run_id, damaged)]
        lost += self.lives.left_over()
        return Played(each.number, each.lives, round(time.monotonic() - began), self.lives.attempts,
                      tuple(done), tuple(lost), missed=tuple(missed))

    def _inject(self, fault: Fault, scene: Scene) -> str:
        """Wait for the fault's moment and let it strike. Gives the phase the run was in, nothing where it had nothing
        left to strike."""
        for left in reversed(range(TRIES)):
            run = self._moment(fault, scene)
            if run["phase"] in running.OVER and fault.kind in OF_A_RUN:
                break
            time.sleep(fault.after)
            if FAULTS[fault.kind](scene, fault):
                return str(run["phase"])
            if left:
                self._await_targets(scene)
        return ""

    def _await_targets(self, scene: Scene) -> None:
        """Until what the fault before ended is there again: the box, and the run's job unless it rests or is over."""
        wait_until(self.http.box.is_ready, RUN_SECONDS, "the box", LOOK_SECONDS)
        wait_until(lambda: bool(scene.of_attempt("job")) or running.run_of(self.http, scene.run_id)["phase"] in STILL,
                   RUN_SECONDS, "the run's job", LOOK_SECONDS)

    def _moment(self, fault: Fault, scene: Scene) -> Any:
        """The run once it is at the fault's update, or over. Raises AssertionError where neither comes."""
        last = scene.steps - (2 * SAVE_EVERY if fault.kind in OF_A_RUN else 0)  # its job must have something left to do
        deadline = time.monotonic() + RUN_SECONDS
        while (run := running.run_of(self.http, scene.run_id))["phase"] not in running.OVER:
            if (run["observedStep"] or 0) >= min(fault.step, last):
                break
            assert time.monotonic() < deadline, f"{scene.life} does not reach update {fault.step}: {run['phase']}"
            time.sleep(LOOK_SECONDS)
        return run
