"""Reinforcement runs through the operations: what they name is looked up and recorded, planned, branched, and shown."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from gpu_worker.engines import plans
from optimize_site.kernel.auth import LOCAL
from registry.operations.bundles import register_bundle
from registry.operations.models import register_run_model
from runs import render
from runs.errors import RunRefused
from runs.models import Snapshot
from runs.operations import advance_run, branch_run, check_run, submit_run
from runs.operations.branching import Wish
from runs.text import settings_rows, state_rows
from runs.work import RunWork
from tests import factories as make
from tests import playing

pytestmark = pytest.mark.django_db
RL = {"groupSize": 2, "promptsPerStep": 4, "maxSteps": 4}
RULE = {"kind": "rule", "weight": 1.0, "bundle": "gsm8k-scoring", "module": "reward"}
SCORING = b"def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


@pytest.fixture
def box(db, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make.make_device("cpu")
    make.make_device("host", kind="host", profile="host")
    workload = make.make_workload(grader="exact")
    base = make.put_weights(make.make_base_model())
    make.make_dataset("triage/train", 16)
    make.measured("triage/train")
    return workload, base


@pytest.fixture
def bundle(box):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("reward.py", SCORING)
    return register_bundle("gsm8k/gsm8k-scoring", [archive.getvalue()], actor=LOCAL).version


@pytest.fixture
def adapter(box, tmp_path):
    """A registered adapter of rank 4."""
    workload, base = box
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "r": 4, "lora_alpha": 6, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj"]}))
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    return register_run_model(
        workload=workload, base_model=base.repository, base_revision=base.revision, base_version=base.version,
        name="warm", adapter_folder=folder, rank=4, target_modules=["q_proj", "v_proj"],
        lineage={"configHash": "c" * 64}, run_id="9" * 64, step=3, actor=LOCAL)


def document(*, config=None, **changes):
    return make.run_document(config={"method": "grpo", "rlHyperparams": RL} | (config or {}), **changes)


def planned(run):
    """The run's next attempt, and its plan as the box completes it."""
    advance_run(run.pk)
    attempt = playing.claim(playing.reread(run))
    run = playing.reread(run)
    return attempt, plans.complete(RunWork().plan(run, attempt), attempt=attempt.pk,
                                   subject={"kind": "run", "id": run.pk}, threads=1, device={"kind": "cpu"})


def complete(run):
    attempt, _ = planned(run)
    playing.say(run, attempt, playing.STARTED, playing.metrics(2), playing.save(attempt, 2, final=True))
    playing.end(run, attempt, "finished")
    advance_run(run.pk)
    return playing.reread(run)


@pytest.mark.requirement("R028", "R054")
def test_a_run_is_planned_with_its_workload_s_grader_as_its_reward(box):
    run = submit_run(document(), actor=LOCAL).run
    _, plan = planned(run)
    assert (plan["entry"], plan["warm_start"], plan["total_steps"], plan["failed_updates"]) == ("grpo", None, None, 5)
    spec = plan["scorer"]["spec"]
    assert spec["terms"] == [{"name": "exact", "weight": 1, "kind": "grader", "grader": "exact"}]
    assert (spec["onFailure"], spec["limits"]["seconds"] > 0) == ("zero", True)
    assert plan["scorer"]["command"][-1].endswith("evaluations/scoring/__main__.py")
    assert playing.reread(run).total_steps == 4


@pytest.mark.requirement("R029", "R235")
def test_a_bundle_is_recorded_by_version_and_given_to_the_job_by_its_bytes(box, bundle):
    run = submit_run(document(config={"reward": {"terms": [RULE]}}), actor=LOCAL).run
    assert run.config["reward"]["terms"][0]["bundle"] == bundle.content_hash
    assert run.references["reward"][0]["bundle"]["reference"] == "gsm8k/gsm8k-scoring:v1"
    (term,) = planned(run)[1]["scorer"]["spec"]["terms"]
    archive = term["bundle"].pop("archive")
    assert archive.endswith(bundle.content_hash)
    assert term == {"name": "reward", "weight": 1, "kind": "rule", "bundle": {
        "sha256": bundle.content_hash, "module": "reward", "function": "compute_score"}}


def test_what_a_reward_names_and_cannot_be_found_is_a_problem_of_its_term(box):
    terms = [RULE, {"kind": "grader", "grader": "nosuch"}, {"kind": "model", "model": "no/judge"}]
    found = check_run(document(config={"reward": {"terms": terms}}), actor=LOCAL)
    assert [problem["path"] for problem in found["problems"]] == [
        "config.reward.terms[0].bundle", "config.reward.terms[1].grader", "config.reward.terms[2].model"]


@pytest.mark.requirement("R030", "R043", "R055", "R247")
def test_a_warm_start_gives_the_job_the_adapter_s_files_and_the_run_its_shape(box, adapter):
    run = submit_run(document(warmStartModelId=adapter.pk[:12]), actor=LOCAL).run
    assert run.config["warmStartConfigHash"] == "c" * 64
    assert run.config["rlHyperparams"]["lora"] == {
        "rank": 4, "alpha": 6, "dropout": 0, "targetModules": r"(?:.*\.)?(?:q_proj|v_proj)", "adaptExperts": False}
    start = planned(run)[1]["warm_start"]
    files = {entry["path"]: entry["sha256"] for entry in adapter.objects_listing}
    assert start["sha256"] == files
    assert (Path(start["folder"]) / "adapter_model.safetensors").read_bytes() == b"weights"


@pytest.mark.parametrize(("named", "code"), [("acme/tiny", "no_adapter"), ("nothing-of-the-name", "unknown_reference")])
def test_a_warm_start_that_is_no_adapter_is_refused(box, named, code):
    with pytest.raises(RunRefused) as refused:
        submit_run(document(warmStartModelId=named), actor=LOCAL)
    (problem,) = refused.value.problems
    assert problem.path == "warmStartModelId"
    assert problem.code == code


@pytest.mark.requirement("R238", "R240")
def test_rows_that_offer_or_call_tools_are_refused_by_the_version_s_count(box):
    tool = {"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}
    call = {"id": "a", "type": "function", "function": {"name": "track", "arguments": "{}"}}
    row = {"messages": [{"role": "user", "content": "where"}, {"role": "assistant", "tool_calls": [call]}],
           "tools": [tool]}
    make.make_dataset("triage/calls", json.dumps(row).encode() + b"\n")
    found = check_run(document(config={"dataset": "triage/calls"}), actor=LOCAL)
    assert {(problem["path"], problem["code"]) for problem in found["problems"]} == {
        ("config.dataset", "tools_not_rolled_out"), ("config.dataset", "answer_calls_tools")}


def test_a_run_says_what_it_is_rewarded_for_and_what_it_starts_from(box, adapter):
    reward = {"terms": [{"kind": "grader", "weight": 0.9}, {"kind": "grader", "weight": 0.1, "grader": "contains"}]}
    run = submit_run(document(config={"reward": reward}, warmStartModelId=adapter.pk), actor=LOCAL).run
    rows = dict(state_rows(render.run_document(run)))
    assert rows["Reward"] == "0.9 × exact + 0.1 × contains; a failed term scores zero"
    assert rows["Starts from"] == "the adapter triage/warm:v1"


@pytest.mark.requirement("R193", "R227")
def test_settings_begin_with_how_completions_are_sampled(box):
    run = submit_run(document(), actor=LOCAL).run
    rows = settings_rows(render.run_document(run))
    assert rows[0] == ("Rollouts", "klBeta 0.04, temperature 0.7")
    assert ("groupSize", "2 (stated)") in rows


def test_the_dry_run_says_the_arithmetic_of_groups_and_steps(box):
    steps = check_run(document(), actor=LOCAL)["estimates"]["steps"]
    assert steps["value"] == 4
    assert "4 prompts × 2 completions = 8 completions a step" in steps["note"]


# Branches ------------------------------------------------------------------------------------------------------------


def branch(parent, **changes):
    overrides = changes.pop("overrides", {})
    return playing.reread(branch_run(Wish(Snapshot.objects.get(run=parent, step=2), 3, overrides=overrides, **changes),
                                     actor=LOCAL).run)


@pytest.mark.requirement("R139", "R140")
def test_a_supervised_run_branches_to_rewards_without_data_loss_or_dropout(box):
    hyper = {"lora": {"rank": 4, "dropout": 0.1}}
    stated = make.run_document(config={"hyperparams": hyper, "loss": {"assistantTurns": "all"}})
    parent = complete(submit_run(stated, actor=LOCAL).run)
    child = branch(parent, overrides={"method": "gspo", "rlHyperparams": {"groupSize": 2}})
    assert (child.method, child.restore_mode, child.total_steps) == ("gspo", "weights", 3)
    assert not {"data", "loss", "hyperparams"} & set(child.config)
    assert (child.config["rlHyperparams"]["lora"]["rank"], child.config["rlHyperparams"]["lora"]["dropout"]) == (4, 0)
    assert child.config["reward"]["terms"][0]["grader"] == "exact"
    assert not any(warning["code"] == "strict_reward" for warning in child.warnings)
    _, plan = planned(child)
    assert (plan["start"]["mode"], plan["total_steps"]) == ("weights", 3)


def test_a_branch_keeps_its_parent_s_reward_whatever_became_of_the_workload(box, bundle):
    reward = {"terms": [RULE, {"kind": "grader", "weight": 0.5}], "onFailure": "exclude"}
    parent = complete(submit_run(document(config={"reward": reward}), actor=LOCAL).run)
    parent.workload.grader = "numeric"
    parent.workload.save()
    for method in ("grpo", "gspo"):
        child = branch(parent, overrides={"method": method} if method != parent.method else {})
        assert child.config["reward"] == parent.config["reward"]
        assert child.restore_mode == ("trainingState" if method == "grpo" else "weights")
    assert [named["name"] for named in child.references["reward"]] == ["reward", "exact"]


@pytest.mark.requirement("R246")
def test_a_branch_of_a_warm_started_run_is_held_to_what_its_mode_starts_from(box, adapter):
    parent = complete(submit_run(document(warmStartModelId=adapter.pk), actor=LOCAL).run)
    kept = branch(parent)
    assert (kept.restore_mode, kept.config) == ("trainingState", parent.config | {
        "rlHyperparams": parent.config["rlHyperparams"] | {"maxSteps": 3}})
    attempt, plan = planned(kept)
    assert plan["warm_start"]["sha256"]
    playing.end(kept, attempt, "finished")
    fresh = branch(parent, restore="weights")
    assert planned(fresh)[1]["warm_start"] is None


def test_the_penalty_of_a_run_that_started_from_weights_cannot_be_kept(box):
    first = complete(submit_run(document(), actor=LOCAL).run)
    second = complete(branch(first, restore="weights"))
    third = branch(second)
    assert third.restore_mode == "weights"
    assert "compared with the adapter" in third.restore_reason
