"""Plays rounds of runs and faults on a box, and holds every run against the same run that nothing happened to."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bench.chaos.faults import FAULTS, FULL, OF_A_RUN, Scene, post
from bench.chaos.report import Played, Tally
from bench.chaos.schedule import SAVE_EVERY, STEPS, Fault, Round, rounds
from gpu_worker import processes
from tests.e2e import running
from tests.e2e.http import Http
from tests.e2e.tiny_box import ask, descriptor

PAIRS = "triage/pairs"
BRANCHED = 60
ROUND_SECONDS = 300.0
LOOK_SECONDS = 0.15
"""Between two looks at a run: an answer costs the box as much as an update of the tiny model."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the hash of its adapter and each update's loss."""

    adapter: str
    losses: dict[int, float]


class Campaign:
    """One seed on one box. `tally` may come from an earlier piece of the campaign: it goes on behind its last round."""

    def __init__(self, http: Http, *, seed: int, tally: Tally | None = None,
                 tell: Callable[[str], None] = print) -> None:
        self.http, self.box, self.seed, self.tell = http, http.box, seed, tell
        self.tally = tally if tally is not None else Tally()
        self.expected: dict[str, Outcome] = {}
        self._source = ("", "")
        self._attempts = 0

    def prepare(self) -> None:
        """Each kind of run once, undisturbed; two at a time, and first the one that is branched from."""
        for lives in (("sft", "dropout"), ("dpo", "branch")):
            ids = [(life, self.start(life)) for life in lives]
            for life, run_id in ids:
                run = running.finish(self.http, run_id)
                self.expected[life] = self.outcome_of(run)
                if life == "sft":
                    self._source = (run["runId"], self._resumable_save(run))

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
        except (AssertionError, OSError) as error:  # the box itself does not come back
            return Played(each.number, each.lives, 0, 0, (), (f"could not be played to its end: {str(error)[:2000]}",),
                          is_whole=False)

    def play_round(self, each: Round) -> Played:
        """Start the round's runs, let its faults meet them, and look at what became of them."""
        began, self._attempts, damaged, cancelled = time.monotonic(), 0, set[str](), list[str]()
        aside = list[Future[None]]()
        ids = [self.start(life) for life in each.lives]
        scenes = [Scene(self.box, self.http, run_id, BRANCHED if life == "branch" else STEPS,
                        lambda: self.start("sft"), damaged, cancelled, aside)
                  for life, run_id in zip(each.lives, ids, strict=True)]
        done, missed = list[tuple[str, str]](), list[str]()
        for fault in each.faults:
            if phase := self._inject(fault, scenes[fault.life]):
                done.append((fault.kind, f"{fault}, in {phase}"))
            else:
                missed.append(fault.kind)
        lost = [f"{life}: {what}" for life, run_id in zip(each.lives, ids, strict=True)
                for what in self._lost(life, run_id, damaged)]
        for race in aside:
            race.result()
        lost += [f"cancelled: {what}" for run_id in cancelled for what in self._not_ended(run_id, damaged)]
        lost += self._left_over()
        return Played(each.number, each.lives, round(time.monotonic() - began), self._attempts,
                      tuple(done), tuple(lost), missed=tuple(missed))

    def start(self, life: str) -> str:
        """A run of a kind, asked for until the box answers; asking twice starts one."""
        if life == "branch":
            parent, snapshot = self._source
            path, body = f"/v1/training/runs/{parent}/branch", {"snapshot": snapshot, "steps": BRANCHED}
        else:
            path, body = "/v1/training/runs", _descriptor_of(life)
        found = post(self.http, path, body | {"submissionId": f"chaos-{self.seed}-{time.monotonic_ns()}"})
        return str(found["runId"])

    def outcome_of(self, run: Any) -> Outcome:
        return Outcome(running.adapter_hash(self.http, run), running.losses(self.http, run))

    def _resumable_save(self, run: Any) -> str:
        saves = self.http.get(f"/v1/training/runs/{run['runId']}/snapshots")["snapshots"]
        whole = [save for save in saves if "trainingState" in save["artifacts"] and not save["isFinal"]]
        snapshot = str(whole[0]["snapshotId"])
        ask(self.box, "snapshots", "pin", snapshot)
        return snapshot

    def _inject(self, fault: Fault, scene: Scene) -> str:
        """Wait for the fault's moment and let it strike. Gives the phase the run was in, nothing where it had nothing
        left to strike."""
        deadline = time.monotonic() + ROUND_SECONDS
        while (run := running.run_of(self.http, scene.run_id))["phase"] not in running.OVER:
            if (run["observedStep"] or 0) >= min(fault.step, scene.steps):
                break
            if time.monotonic() > deadline:
                return ""
            time.sleep(LOOK_SECONDS)
        if run["phase"] in running.OVER and fault.kind in OF_A_RUN:
            return ""
        time.sleep(fault.after)
        return str(run["phase"]) if FAULTS[fault.kind](scene, fault) else ""

    # What was lost ---------------------------------------------------------------------------------------------------

    def _lost(self, life: str, run_id: str, damaged: set[str]) -> list[str]:
        """Everything in which a run differs from the one that nothing happened to."""
        try:
            run = self.http.follow(f"/v1/training/runs/{run_id}", "phase", running.OVER, seconds=ROUND_SECONDS)
        except AssertionError as late:
            return [f"not over after {ROUND_SECONDS:.0f} s: {str(late)[:400]}"]
        self._attempts += len(run["attempts"])
        if FULL in damaged and run["failureCode"] == "disk_full":
            return self._disagreements(run_id, damaged)
        if run["phase"] != "COMPLETED":
            return [f"{run['phase']}: {run['failureCode']} {run['failureReason']}"]
        found, expected = self.outcome_of(run), self.expected[life]
        wrong = []
        if found.adapter != expected.adapter:
            wrong.append(f"the adapter is {found.adapter[:12]}, undisturbed {expected.adapter[:12]}")
        if list(found.losses) != sorted(expected.losses):
            wrong.append(f"the figures are of updates {sorted(found.losses)}")
        elif found.losses != expected.losses:
            wrong.append("losses differ")
        return wrong + self._disagreements(run_id, damaged)

    def _disagreements(self, run_id: str, damaged: set[str]) -> list[str]:
        """What verifying the run says, but for the files that the campaign damaged."""
        checks = self.http.get(f"/v1/training/runs/{run_id}/verify")["checks"]
        return [problem for check in checks for problem in check["problems"]
                if not (check["name"] == "saves" and any(f" {name}: " in problem for name in damaged))]

    def _not_ended(self, run_id: str, damaged: set[str]) -> list[str]:
        run = self.http.follow(f"/v1/training/runs/{run_id}", "phase", running.OVER, seconds=ROUND_SECONDS)
        if run["phase"] == "COMPLETED":
            return [] if self.outcome_of(run) == self.expected["sft"] else ["it completed to other bytes"]
        is_full = FULL in damaged and run["failureCode"] == "disk_full"
        return [] if run["phase"] == "CANCELLED" or is_full else [f"{run['phase']}: {run['failureReason']}"]

    def _left_over(self) -> list[str]:
        """Slots that are still held and processes that still run although no run is open."""
        held = sum(pool["granted"] for pool in self.http.get("/v1/training/capacity")["pools"])
        alive = [folder.name[:12] for folder in (self.box.home / "attempts").iterdir() if processes.any_alive(folder)]
        return [*([f"{held} slots are held"] if held else []), *(f"attempt {name} still runs" for name in alive)]


def _descriptor_of(life: str) -> dict[str, Any]:
    body = descriptor(max_steps=STEPS, save_every=SAVE_EVERY)
    config = body["config"]
    if life == "dropout":
        config["hyperparams"]["lora"]["dropout"] = 0.1
        config["hyperparams"]["scheduler"] = {"kind": "cosine", "warmupRatio": 0.2}
    if life == "dpo":
        config["hyperparams"]["training"]["gradientAccumulation"] = 1
        config |= {"method": "dpo", "dataset": PAIRS}
    return body
