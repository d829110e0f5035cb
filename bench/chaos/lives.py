"""The kinds of runs of a campaign: how each is started, what it comes to undisturbed, and what it lacks of that."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from bench.chaos.faults.files import FULL
from bench.chaos.scene import database, post
from bench.chaos.schedule import LIVES, SAVE_EVERY, STEPS
from gpu_worker import processes
from tests.e2e import running
from tests.e2e.http import Http
from tests.e2e.tiny_box import TINY, ask, descriptor

JUDGED = "judged"
"""A kind of run that only aimed faults meet: its reward asks a model, which it holds."""
JUDGED_STEPS = 4
PAIRS = "triage/pairs"
BRANCHED = 60
RUN_SECONDS = 300.0
RELEASE_SECONDS = 60.0
"""A judge is told to end once its run is over, and its slot is free when it has."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the hash of its adapter and each update's loss."""

    adapter: str
    losses: dict[int, float]


@dataclass
class Lives:
    """Runs of one campaign on one box."""

    http: Http
    seed: int
    expected: dict[str, Outcome] = field(default_factory=dict)
    attempts: int = 0
    """Jobs of the runs that were looked at."""
    _source: tuple[str, str] = ("", "")

    def prepare(self, lives: tuple[str, ...] = LIVES) -> None:
        """Each kind of run once, undisturbed; two at a time, and first the one that is branched from."""
        for pair in (lives[:2], lives[2:]):
            ids = [(life, self.start(life)) for life in pair]
            for life, run_id in ids:
                run = running.finish(self.http, run_id)
                self.expected[life] = self.outcome_of(run)
                if life == "sft" and "branch" in lives:
                    self._source = (run["runId"], self._resumable_save(run))

    def start(self, life: str, *, pauses_at: int | None = None) -> str:
        """A run of a kind, asked for until the box answers; asking twice starts one."""
        if life == "branch":
            parent, snapshot = self._source
            path, body = f"/v1/training/runs/{parent}/branch", {"snapshot": snapshot, "steps": BRANCHED}
        else:
            path, body = "/v1/training/runs", descriptor_of(life)
        stated = {"submissionId": f"chaos-{self.seed}-{time.monotonic_ns()}"}
        stated |= {} if pauses_at is None else {"pauseAtStep": pauses_at}
        return str(post(self.http, path, body | stated)["runId"])

    def outcome_of(self, run: Any) -> Outcome:
        return Outcome(running.adapter_hash(self.http, run), running.losses(self.http, run))

    def _resumable_save(self, run: Any) -> str:
        saves = self.http.get(f"/v1/training/runs/{run['runId']}/snapshots")["snapshots"]
        whole = [save for save in saves if "trainingState" in save["artifacts"] and not save["isFinal"]]
        snapshot = str(whole[0]["snapshotId"])
        ask(self.http.box, "snapshots", "pin", snapshot)
        return snapshot

    # What was lost ---------------------------------------------------------------------------------------------------

    def lost_of(self, life: str, run_id: str, damaged: set[str]) -> list[str]:
        """Everything in which a run differs from the one that nothing happened to."""
        try:
            run = self._over(run_id)
        except AssertionError as late:
            return [f"not over after {RUN_SECONDS:.0f} s: {str(late)[:400]}"]
        self.attempts += len(run["attempts"])
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
        return wrong + self._rests(run) + self._disagreements(run_id, damaged)

    def _rests(self, run: Any) -> list[str]:
        """Whether a run whose plan pauses rested there, and once."""
        at = run["pauseAtStep"]
        if at is None:
            return []
        told = ("SELECT data->'pause' FROM kernel_event WHERE subject_kind = 'run' AND subject_id = %s"
                " AND jsonb_typeof(data->'pause') = 'object' ORDER BY id")
        with database(self.http.box) as connection:
            pauses = [pause for (pause,) in connection.execute(told, [run["runId"]])]
        by_plan = [pause["savedStep"] for pause in pauses if pause["requestedBy"] == "plan"]
        is_kept = by_plan == [at] or (not by_plan and at in [pause["savedStep"] for pause in pauses])
        return [] if is_kept else [f"its plan pauses at update {at}, and it rested for that at {by_plan}"]

    def _disagreements(self, run_id: str, damaged: set[str]) -> list[str]:
        """What verifying the run says, but for the files that the campaign damaged."""
        checks = self.http.get(f"/v1/training/runs/{run_id}/verify")["checks"]
        return [problem for check in checks for problem in check["problems"]
                if not (check["name"] == "saves" and any(f" {name}: " in problem for name in damaged))]

    def lost_of_cancelled(self, run_id: str, damaged: set[str]) -> list[str]:
        """How a run of the first kind that was cancelled ended wrongly: not at all, or to other bytes."""
        run = self._over(run_id)
        if run["phase"] == "COMPLETED":
            return [] if self.outcome_of(run) == self.expected["sft"] else ["it completed to other bytes"]
        is_full = FULL in damaged and run["failureCode"] == "disk_full"
        return [] if run["phase"] == "CANCELLED" or is_full else [f"{run['phase']}: {run['failureReason']}"]

    def left_over(self, *, within: float = 0.0) -> list[str]:
        """Slots that are still held and processes that still run although no run is open, and so many seconds later."""
        deadline = time.monotonic() + within
        while (found := self._held_now()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _held_now(self) -> list[str]:
        held = sum(pool["granted"] for pool in self.http.get("/v1/training/capacity")["pools"])
        attempts = (self.http.box.home / "attempts").iterdir()
        alive = [folder.name[:12] for folder in attempts if processes.any_alive(folder)]
        return [*([f"{held} slots are held"] if held else []), *(f"attempt {name} still runs" for name in alive)]

    def _over(self, run_id: str) -> Any:
        return self.http.follow(f"/v1/training/runs/{run_id}", "phase", running.OVER, seconds=RUN_SECONDS)


def descriptor_of(life: str) -> dict[str, Any]:
    """The descriptor of a kind of run; a branch has none."""
    if life == JUDGED:
        return _judged()
    body = descriptor(max_steps=STEPS, save_every=SAVE_EVERY)
    config = body["config"]
    if life == "dropout":
        config["hyperparams"]["lora"]["dropout"] = 0.1
        config["hyperparams"]["scheduler"] = {"kind": "cosine", "warmupRatio": 0.2}
    if life == "dpo":
        config["hyperparams"]["training"]["gradientAccumulation"] = 1
        config |= {"method": "dpo", "dataset": PAIRS}
    return body


def _judged() -> dict[str, Any]:
    rl = {"maxSteps": JUDGED_STEPS, "groupSize": 4, "promptsPerStep": 2, "maxCompletionLength": 12,
          "lora": {"rank": 4}, "optimizer": {"learningRate": 0.01}}
    terms = [{"kind": "grader", "grader": 'regex:{"pattern":"[a-m]{2}"}'},
             {"kind": "model", "model": TINY, "instructions": "Judge."}]
    config = {"dataset": "triage/train", "method": "grpo", "maxSeqLength": 256, "rlHyperparams": rl,
              "reward": {"terms": terms}}
    return descriptor(config=config, execution={"saveEvery": 2, "resumableSaveEvery": 1})


JUDGES = "[trainer.judges]\nmax-new-tokens = 8\n[trainer.rollouts]\nfailed-updates = 0\n"
"""Settings under which a judge that knows nothing answers shortly, and ends no run by that."""
