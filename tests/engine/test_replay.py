"""A stretch between two saves, trained once more, gives the recorded bytes; another one does not."""

import hashlib
import json
from pathlib import Path

import jobs
import pytest
import tiny

pytestmark = pytest.mark.filterwarnings("ignore")
SAME = ("adapter_model.safetensors", "adapter_config.json", "optimizer.pt", "scheduler.pt", "rng_state.pth")


def resume_from(attempt: Path, step: int) -> dict:
    event = next(event for event in tiny.events_of(attempt, "snapshot") if event["step"] == step)
    return {"folder": str(attempt / event["folder"]), "step": step, "manifest_sha256": event["manifestSha256"],
            "state_manifest_sha256": event["stateManifestSha256"]}


def plan_of(method, base_model, write_rows):
    changes = {"execution.saveEvery": 2, "config.hyperparams.training.epochs": 2}
    if method == "dpo":
        return tiny.dpo_plan(base_model, [write_rows(tiny.pair_rows(8))], **changes)
    if method in {"grpo", "gspo"}:
        stated = {"entry": method, "config.method": method, "config.rlHyperparams.maxSteps": 4}
        return tiny.rl_plan(base_model, [write_rows(tiny.ticket_rows(5))], **stated, **{"execution.saveEvery": 2})
    return tiny.sft_plan(base_model, [write_rows(tiny.ticket_rows(16))], **changes,
                         **{"config.hyperparams.lora.dropout": 0.1})


@pytest.mark.parametrize("method", ["sft", "dpo", "grpo", "gspo"])
def test_a_stretch_gives_the_bytes_and_the_losses_that_were_recorded(method, base_model, write_rows, tmp_path):
    plan = plan_of(method, base_model, write_rows)
    first = jobs.run(tmp_path / "first", plan)
    whole = [event["step"] for event in tiny.events_of(first, "snapshot") if event["trainingState"]]
    start, end = whole[-2:]
    again = {**plan, "entry": "replay", "resume": resume_from(first, start), "first_attempt": False,
             "execution": {**plan["execution"], "saveEvery": None}}
    report = tiny.events_of(jobs.run(tmp_path / "again", again), "finished")[-1]["report"]
    assert report["step"] == end
    for name in SAME:
        data = (first / "snapshots" / f"step-{end}" / name).read_bytes()
        assert report["files"][name] == hashlib.sha256(data).hexdigest(), name
    told = ("loss", "reward") if "scorer" in plan else ("loss",)
    assert {name: [values[name] for values in report["figures"].values()] for name in told} == {
        name: jobs.metrics(first, name)[start:end] for name in told}

    middle = tiny.events_of(jobs.run(tmp_path / "middle", {**again, "resume": None, "pause_at": start}), "finished")
    data = (first / "snapshots" / f"step-{start}" / "optimizer.pt").read_bytes()
    assert middle[-1]["report"]["files"]["optimizer.pt"] == hashlib.sha256(data).hexdigest()


def test_another_seed_gives_other_bytes(base_model, write_rows, tmp_path):
    plan = plan_of("sft", base_model, write_rows)
    first = jobs.run(tmp_path / "first", plan)
    other = json.loads(json.dumps(plan))
    other["config"]["hyperparams"]["training"]["seed"] += 1
    report = tiny.events_of(jobs.run(tmp_path / "again", {**other, "entry": "replay"}), "finished")[-1]["report"]
    assert report["figures"]["1"]["loss"] != jobs.metrics(first, "loss")[0]
