"""A branch: another run that starts from a snapshot, with its weights alone or with its whole training state."""

import json

import jobs
import pytest
import tiny

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = {"config.hyperparams.training.epochs": 3, "config.hyperparams.scheduler.kind": "constant"}


@pytest.fixture(scope="module")
def plan(base_model, tmp_path_factory):
    """Ten rows, four an update: three updates an epoch, nine in all, at a constant learning rate, with dropout."""
    path = tmp_path_factory.mktemp("rows") / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in tiny.ticket_rows(10)))
    settings = {**STEPS, "config.hyperparams.lora.dropout": 0.1, "execution.saveEvery": 1}
    return tiny.sft_plan(base_model, [path], **settings)


@pytest.fixture(scope="module")
def parent(plan, tmp_path_factory):
    """A whole run that saved after its fourth update, in the middle of its second epoch."""
    attempt = jobs.run(tmp_path_factory.mktemp("parent") / "first", {**plan, "pause_at": 4})
    rest = {**plan, "resume": jobs.newest_snapshot(attempt), "first_attempt": False}
    return attempt, jobs.run(tmp_path_factory.mktemp("parent") / "second", rest)


def start(attempt, mode):
    found = jobs.newest_snapshot(attempt)
    return {"folder": found["folder"], "mode": mode, "manifest_sha256": found["manifest_sha256"],
            "state_manifest_sha256": found["state_manifest_sha256"]}  # fmt: skip


def branch(plan, attempt, folder, *, mode="trainingState", steps=5, **changes):
    return jobs.run(folder, {**plan, "start": start(attempt, mode), "total_steps": steps, **changes})


@pytest.mark.requirement("R033", "R289")
def test_a_branch_with_the_training_state_goes_on_as_its_parent_did(plan, parent, tmp_path):
    child = branch(plan, parent[0], tmp_path / "child")
    assert [event["step"] for event in tiny.events_of(child, "metrics")] == [1, 2, 3, 4, 5]
    for figure in ("loss", "grad_norm"):
        assert jobs.metrics(child, figure) == jobs.metrics(parent[1], figure)
    assert jobs.adapter_bytes(child) == jobs.adapter_bytes(parent[1])


@pytest.mark.requirement("R291")
def test_a_branch_of_the_weights_starts_its_optimizer_and_its_data_anew(plan, parent, tmp_path):
    child = branch(plan, parent[0], tmp_path / "child", mode="weights", steps=3)
    fresh = jobs.run(tmp_path / "fresh", plan)
    assert jobs.metrics(child, "tokens") == jobs.metrics(fresh, "tokens")[:3]
    assert jobs.metrics(child, "loss")[0] < jobs.metrics(fresh, "loss")[0]
    position = json.loads((child / "snapshots" / "step-3" / "position.json").read_text())
    assert (position["offset"], position["step"]) == (0, 3)


def test_a_branch_follows_a_schedule_over_its_own_budget_from_its_own_learning_rate(plan, parent, tmp_path):
    changed = tiny.changed(plan, **{
        "config.hyperparams.scheduler.kind": "linear", "config.hyperparams.optimizer.learningRate": 4e-4})  # fmt: skip
    child = branch(changed, parent[0], tmp_path / "child", steps=4)
    assert jobs.metrics(child, "learning_rate") == pytest.approx([4e-4, 3e-4, 2e-4, 1e-4])


def test_a_branch_of_a_branch_stands_where_both_have_read_to(plan, parent, tmp_path):
    child = branch(plan, parent[0], tmp_path / "child", steps=2)
    grandchild = branch(plan, child, tmp_path / "grandchild", steps=3)
    assert jobs.metrics(grandchild, "loss") == jobs.metrics(parent[1], "loss")[2:]
    assert jobs.adapter_bytes(grandchild) == jobs.adapter_bytes(parent[1])


@pytest.mark.parametrize("mode", ["weights", "trainingState"])
def test_a_branch_that_is_interrupted_goes_on_to_the_same_bytes(plan, parent, tmp_path, mode):
    whole = branch(plan, parent[0], tmp_path / "whole", mode=mode)
    first = branch(plan, parent[0], tmp_path / "first", mode=mode, pause_at=2)
    second = branch(plan, parent[0], tmp_path / "second", mode=mode, resume=jobs.newest_snapshot(first))
    assert jobs.metrics(first, "loss") + jobs.metrics(second, "loss") == jobs.metrics(whole, "loss")
    assert jobs.adapter_bytes(second) == jobs.adapter_bytes(whole)


def test_a_damaged_source_is_refused_before_it_is_loaded(plan, parent, tmp_path):
    forged = {**start(parent[0], "trainingState"), "state_manifest_sha256": "0" * 64}
    failed = jobs.failure(jobs.run(tmp_path / "a", {**plan, "start": forged, "total_steps": 2}))
    assert failed["code"] == "snapshot_invalid"
    assert "training state" in failed["reason"]


def test_a_source_of_another_shape_is_refused(plan, parent, tmp_path):
    changed = tiny.changed(plan, **{"config.hyperparams.lora.rank": 16})
    failed = jobs.failure(branch(changed, parent[0], tmp_path / "a", mode="weights", steps=2))
    assert failed["code"] == "snapshot_invalid"
    assert "lora.rank" in failed["hint"]


def test_the_training_state_of_other_data_is_refused(plan, parent, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in tiny.ticket_rows(12)))
    changed = {**plan, "dataset": {**plan["dataset"], "files": [str(other)]}}
    failed = jobs.failure(branch(changed, parent[0], tmp_path / "a", steps=2))
    assert failed["code"] == "snapshot_invalid"
    assert "other data" in failed["reason"]
