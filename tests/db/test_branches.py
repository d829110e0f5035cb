"""Branches and sweeps: what a child inherits, how it is restored and why; nothing is started twice."""

import json

import pytest

from optimize_site.kernel import clock
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.client import Client
from optimize_site.kernel.errors import Unavailable
from registry.operations.namespaces import archive_namespace
from runs import lineage
from runs.errors import RunRefused, SubmissionConflict
from runs.management.commands.runs import Command
from runs.models import Run, Snapshot, SnapshotHold
from runs.operations import advance_run, branch_run, cancel_run, plan_branch, sweep_runs, tend_snapshots
from runs.operations.branching import Wish
from tests.factories import TINY, add_to_catalog, make_device, make_run
from tests.playing import STARTED, WORK, claim, end, metrics, reread, save, say

pytestmark = pytest.mark.django_db
RATE = {"hyperparams": {"optimizer": {"learningRate": 5e-5}}}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def parent(db):
    """A completed run with a whole save at 2, one of weights alone at 3, and its final one at 4."""
    make_device()
    run = make_run()
    advance_run(run.pk)
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(2), save(attempt, 2), metrics(3), save(attempt, 3, state=False), metrics(4),
        save(attempt, 4, final=True))
    end(run, attempt, "finished")
    advance_run(run.pk)
    return reread(run)


def wish(parent, *, step=2, steps=3, **changes):
    return Wish(Snapshot.objects.get(run=parent, step=step), steps, **changes)


def branch(parent, **changes):
    return branch_run(wish(parent, **changes), actor=LOCAL).run


@pytest.mark.requirement("R033", "R288", "R289", "R290")
def test_a_branch_is_a_run_of_its_own_that_inherits_its_parents_settings(parent):
    child = reread(branch(parent, overrides=RATE))
    assert (child.parent_id, child.source_snapshot.step, child.total_steps) == (parent.pk, 2, 3)
    assert child.pk != parent.pk
    assert child.config["dataset"] == parent.config["dataset"]
    assert child.config["hyperparams"]["lora"] == parent.config["hyperparams"]["lora"]
    assert child.config["hyperparams"]["optimizer"]["learningRate"] == 5e-5
    assert child.config["hyperparams"]["training"]["maxSteps"] == 3
    assert child.execution == parent.execution
    assert child.stated == ["config.hyperparams.optimizer.learningRate"]
    assert (child.restore_mode, child.observed_step) == ("trainingState", 0)
    assert "optimizer" in child.restore_reason


def test_a_branch_takes_what_its_parents_judge_is_told_and_another_grader_does_not(parent):
    Run.objects.filter(pk=parent.pk).update(descriptor=parent.descriptor | {"graderInstructions": "Be strict."})
    parent.refresh_from_db()
    assert branch(parent).descriptor["graderInstructions"] == "Be strict."
    assert "graderInstructions" not in branch(parent, overrides={"grader": "exact"}).descriptor


VERL = {"engine": "verl", "settings": {"engine.forward_prefetch": True, "rollout.enforce_eager": True}}


@pytest.fixture
def sharded(monkeypatch):
    """A way to have a run under verl that trained to its update 2, where the box's catalog lets it run."""
    monkeypatch.setenv("OPTIMIZE_TRAINER_RUNS_ALLOWED_ENGINES", "trl,verl")
    add_to_catalog("engines", '[verl]\nmethods = ["sft", "grpo"]\n')
    add_to_catalog("base_models", f'["{TINY}"]\nsource = {{ kind = "folder", path = "/nowhere" }}\n'
                   'context_length = 4096\nengines = { verl = ["sft", "grpo"] }\n')

    def train(**changes):
        make_device()
        run = make_run(**changes)
        advance_run(run.pk)
        attempt = claim(run)
        say(run, attempt, STARTED, metrics(2), save(attempt, 2))
        end(run, attempt, "stopped")
        return reread(run)

    return train


def boxes_memory(text):
    """Other values of the box's own."""
    add_to_catalog("defaults", f"[memory]\n{text}\n")


@pytest.mark.requirement("R155")
def test_a_branch_keeps_engine_settings_but_those_its_method_has_no_use_for(sharded):
    parent = sharded(grader="json-label-match", config={"method": "grpo", "engineSettings": VERL})
    same = plan_branch(wish(parent), actor=LOCAL)
    assert (same.problems, same.resolved.config["engineSettings"]) == ((), VERL)
    other = plan_branch(wish(parent, overrides={"method": "sft"}), actor=LOCAL)
    assert other.problems == ()
    assert other.resolved.config["engineSettings"]["settings"] == {"engine.forward_prefetch": True}
    assert "rollout" not in other.resolved.execution
    stated = {"method": "sft", "engineSettings": {"settings": {"rollout.enforce_eager": True}}}
    refused = plan_branch(wish(parent, overrides=stated), actor=LOCAL).problems
    assert [problem.code for problem in refused] == ["setting_does_not_apply"]


@pytest.mark.requirement("R155")
def test_a_branch_that_has_no_use_for_any_engine_setting_states_none(sharded):
    rollouts = {"engine": "verl", "settings": {"rollout.enforce_eager": True}}
    parent = sharded(grader="json-label-match", config={"method": "grpo", "engineSettings": rollouts})
    other = plan_branch(wish(parent, overrides={"method": "sft"}), actor=LOCAL)
    assert (other.problems, "engineSettings" in other.resolved.config) == ((), False)


@pytest.mark.requirement("R159")
def test_later_values_of_the_box_touch_neither_a_run_nor_its_branch_nor_its_next_attempt(sharded, capsys):
    parent = sharded(grader="json-label-match", config={"method": "grpo"}, execution={"rollout": {"memoryShare": 0.6}})
    recorded = (parent.execution["rollout"], parent.execution["memory"], parent.config["model"]["weightPrecision"])
    assert recorded == ({"memoryShare": 0.6}, {"offload": {"weights": False}}, "fp32")
    boxes_memory('weight_precision = "bf16"\nmemory_share = 0.3\nmemory_share_range = [0.2, 0.4]\n'
                 'offload_weights = true\nstateable = []')
    child = branch(parent)
    assert (child.execution, child.config["model"]) == (parent.execution, parent.config["model"])
    again = WORK.plan(WORK.get(parent.pk), claim(reread(parent)))
    assert (again["execution"], again["config"]["model"]) == (parent.execution, parent.config["model"])
    refused = plan_branch(wish(parent, overrides={"execution": {"rollout": {"memoryShare": 0.3}}}), actor=LOCAL)
    assert [problem.code for problem in refused.problems] == ["setting_not_allowed"]
    _, out = ask(capsys, "get", parent.pk, "--settings")
    shown = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert shown["execution.rollout.memoryShare"].endswith("0.6 (stated)")
    assert shown["execution.memory.offload.weights"].endswith("false")
    assert shown["model.weightPrecision"].endswith("fp32")


@pytest.mark.requirement("R159")
def test_what_a_branch_overrides_beside_its_configuration_is_marked_as_stated(parent):
    child = branch(parent, overrides={"execution": {"saveEvery": 3}})
    assert child.stated == ["execution.saveEvery"]


@pytest.mark.requirement("R289", "R290", "R291", "R281")
@pytest.mark.parametrize(("changes", "why"), [
    ({"step": 3}, "holds no training state"),
    ({"overrides": {"hyperparams": {"training": {"seed": 7}}}}, "hyperparams.training.seed is overridden"),
    ({"restore": "weights"}, "Asked for"),
])
def test_a_branch_that_cannot_keep_the_state_or_shall_not_starts_a_fresh_optimizer_and_says_why(parent, changes, why):
    planned = plan_branch(wish(parent, **changes), actor=LOCAL)
    assert (planned.mode, planned.problems) == ("weights", ())
    assert why in planned.reason


def test_a_state_that_was_asked_for_and_cannot_be_kept_is_refused(parent):
    with pytest.raises(RunRefused, match="holds no training state"):
        branch(parent, step=3, restore="trainingState")


@pytest.mark.requirement("R289", "R291")
@pytest.mark.parametrize(("overrides", "why"), [
    ({"method": "dpo"}, "the method changes from sft to dpo"),
    ({"execution": {"gpus": 2}}, "execution.gpus changes from 1 to 2"),
])
def test_a_state_that_was_asked_for_is_not_kept_over_another_method_or_other_devices(parent, overrides, why):
    planned = plan_branch(wish(parent, overrides=overrides, restore="trainingState"), actor=LOCAL)
    assert any(problem.code == "training_state_not_possible" and why in problem.message for problem in planned.problems)


def test_a_way_of_restoring_that_nobody_knows_is_refused(parent):
    with pytest.raises(RunRefused, match="restoreMode is 'half'; it must be") as refused:
        branch(parent, restore="half")
    assert "restore_mode_unknown" in {problem.code for problem in refused.value.problems}


def test_all_that_is_wrong_with_a_branch_is_told_at_once(parent):
    overrides = {"hyperparams": {"training": {"epochs": 2}, "lora": {"rank": 64}}, "colour": "red"}
    with pytest.raises(RunRefused) as refused:
        branch(parent, steps=0, overrides=overrides)
    assert {problem.code for problem in refused.value.problems} >= {
        "budget_is_steps", "adapter_keeps_its_shape", "no_steps"}
    assert any("colour" in problem.path for problem in refused.value.problems)
    assert not Run.objects.exclude(pk=parent.pk).exists()


def test_a_job_of_a_branch_is_told_its_source_and_its_budget(parent):
    child = branch(parent)
    advance_run(child.pk)
    plan = WORK.plan(WORK.get(child.pk), claim(child))
    assert plan["start"]["mode"] == "trainingState"
    assert plan["start"]["folder"].endswith("snapshots/step-2")
    assert (plan["total_steps"], plan["resume"]) == (3, None)


def test_a_branch_holds_its_source_until_it_ends(parent):
    child = branch(parent)
    assert sorted(SnapshotHold.objects.values_list("kind", flat=True)) == ["trainingState", "weights"]
    Run.objects.filter(pk=parent.pk).update(execution=parent.execution | {"keepAdapters": 1, "keepTrainingStates": 1})
    tend_snapshots()
    assert Snapshot.objects.get(run=parent, step=2).swept == []
    cancel_run(reread(child), actor=LOCAL)
    assert reread(child).phase == "CANCELLED"
    assert not SnapshotHold.objects.exists()


def test_the_same_submission_reaches_the_same_branch_and_another_request_is_refused(parent):
    first = branch_run(wish(parent, submission_id="s"), actor=LOCAL)
    again = branch_run(wish(parent, submission_id="s"), actor=LOCAL)
    assert (first.is_new, again.is_new, again.run.pk) == (True, False, first.run.pk)
    with pytest.raises(SubmissionConflict):
        branch(parent, steps=9, submission_id="s")


def grid(*rates):
    return {"axes": [{"path": "hyperparams.optimizer.learningRate", "values": list(rates)},
                     {"path": "hyperparams.training.seed", "values": [1, 2]}]}


@pytest.mark.requirement("R288", "R290")
def test_a_sweep_starts_a_branch_a_point_and_sent_again_only_the_new_ones(parent):
    source = Snapshot.objects.get(run=parent, step=2)
    shown = sweep_runs(source, steps=2, grid=grid(1e-5, 2e-5), submission_id="t", dry_run=True, actor=LOCAL)
    assert not Run.objects.exclude(pk=parent.pk).exists()
    first = sweep_runs(source, steps=2, grid=grid(1e-5, 2e-5), submission_id="t", actor=LOCAL)
    assert [point.run.pk for point in first.points] == [point.wish.child_id for point in shown.points]
    assert [point.run.restore_mode for point in first.points] == ["weights"] * 4
    again = sweep_runs(source, steps=2, grid=grid(1e-5, 2e-5, 3e-5), submission_id="t", actor=LOCAL)
    assert [point.is_new for point in again.points] == [False] * 4 + [True] * 2
    child = Run.objects.get(pk=first.points[0].run.pk)
    assert child.sweep_point == {"hyperparams.optimizer.learningRate": 1e-5, "hyperparams.training.seed": 1}
    assert child.config_name == "learningRate 1e-05, seed 1"


def test_of_a_sweep_with_one_bad_point_nothing_is_started(parent):
    bad = {"axes": [{"path": "hyperparams.optimizer.learningRate", "values": [1e-5, -1]}]}
    with pytest.raises(RunRefused) as refused:
        sweep_runs(Snapshot.objects.get(run=parent, step=2), steps=2, grid=bad, actor=LOCAL)
    assert refused.value.problems[0].path.startswith("points[1].")
    assert Run.objects.count() == 1


def test_what_came_of_what_is_told_from_both_ends(parent):
    child = branch(parent)
    other = branch(parent, overrides=RATE)
    assert {row.pk for row in lineage.branches_of(parent)} == {child.pk, other.pk}
    assert [run.pk for run in lineage.ancestry_of(reread(child))] == [parent.pk, child.pk]
    tree = lineage.tree_of(reread(parent))
    assert {node["runId"] for node in tree["branches"]} == {child.pk, other.pk}
    assert lineage.tree_of(reread(parent), depth=1)["branches"][0]["branches"] == []


def ask(capsys, *argv):
    status = Command().run([str(part) for part in argv])
    return status, capsys.readouterr().out


def test_the_commands_tell_a_run_s_branches_and_what_led_to_one(parent, capsys):
    child = branch(parent)
    grandchild = branch_run(Wish(Snapshot.objects.get(run=parent, step=2), 3, submission_id="again"), actor=LOCAL).run
    assert json.loads(ask(capsys, "branches", parent.pk, "-o", "json")[1])["total"] == 2
    found = json.loads(ask(capsys, "branches", parent.pk, "--submission", "again", "-o", "json")[1])
    assert [row["childRunId"] for row in found["branches"]] == [grandchild.pk]
    status, out = ask(capsys, "ancestry", child.pk[:12])
    assert status in (0, None) and out.index(parent.pk[:12]) < out.rindex(child.pk[:12])


def test_a_branch_s_command_can_wait_for_it_and_tell_how_it_ended(parent, capsys, monkeypatch):
    def end(_):
        Run.objects.filter(parent=parent).update(phase="FAILED", failure_code="bad_row", ended_at=clock.now(),
                                                 failure_reason="Row 3 is wrong.")

    monkeypatch.setattr("optimize_site.kernel.commands.time.sleep", end)
    words = ("branch", parent.pk, "--snapshot", Snapshot.objects.get(run=parent, step=2).pk, "--steps", "2")
    status, out = ask(capsys, *words, "--wait", "--exit-status")
    assert status == 5 and "Row 3 is wrong." in out
    assert ask(capsys, *words, "--exit-status")[0] == 2
    assert ask(capsys, *words, "--wait", "--dry-run")[0] == 2


@pytest.mark.parametrize("verb", ["branch", "sweep"])
def test_what_is_sent_again_after_a_lost_answer_reaches_the_same_branches(parent, capsys, monkeypatch, tmp_path, verb):
    """Each command has a submission of its own, so that the box knows the second sending of one."""
    monkeypatch.setattr("runs.management.following.time.sleep", lambda _: None)
    post, lost = Client.post, ["once"]

    def losing(self, path, *args, **options):
        found = post(self, path, *args, **options)
        if lost:
            raise Unavailable(lost.pop())
        return found

    monkeypatch.setattr(Client, "post", losing)
    axis = {"path": "hyperparams.optimizer.learningRate", "values": [0.001, 0.002]}
    (tmp_path / "grid.json").write_text(json.dumps({"axes": [axis]}))
    more = ("--grid", tmp_path / "grid.json") if verb == "sweep" else ()
    source = Snapshot.objects.get(run=parent, step=2).pk
    status, out = ask(capsys, verb, parent.pk, "--snapshot", source, "--steps", "2", "-o", "json", *more)
    assert status in (0, None), out
    assert not lost and Run.objects.filter(parent=parent).count() == 1 + (verb == "sweep")


@pytest.mark.requirement("R290", "R292")
def test_the_commands_say_how_a_branch_is_restored_and_why(parent, capsys, tmp_path):
    source = Snapshot.objects.get(run=parent, step=2)
    (tmp_path / "over.json").write_text(json.dumps({"hyperparams": {"training": {"seed": 9}}}))
    status, out = ask(capsys, "branch", parent.pk[:12], "--snapshot", source.pk[:12], "--steps", "2", "--dry-run",
                      "-f", tmp_path / "over.json")
    assert status in (0, None)
    assert "weights. A fresh optimizer: hyperparams.training.seed is overridden" in out
    _, out = ask(capsys, "branch", parent.pk, "--snapshot", source.pk, "--steps", "2", "-o", "json")
    child = json.loads(out)
    assert (child["restoreMode"], child["isNew"]) == ("trainingState", True)
    _, out = ask(capsys, "tree", parent.pk)
    assert f"  {child['childRunId'][:12]}" in out
    _, out = ask(capsys, "get", child["childRunId"])
    assert f"run {parent.pk[:12]} at step 2" in out
    assert "trainingState. The snapshot's optimizer" in out


@pytest.mark.requirement("R302")
def test_a_branch_or_sweep_that_would_register_into_an_archived_namespace_is_refused(parent):
    archive_namespace(parent.workload.namespace, actor=LOCAL)
    for submit in (lambda: branch(parent), lambda: sweep_runs(
            wish(parent).snapshot, steps=3, grid=grid(1e-5), actor=LOCAL)):
        with pytest.raises(RunRefused) as refused:
            submit()
        assert {problem.code for problem in refused.value.problems} == {"namespace_archived"}
        assert "namespaces unarchive triage" in refused.value.problems[0].hint
    assert [problem.code for problem in plan_branch(wish(parent), actor=LOCAL).problems] == ["namespace_archived"]
    assert Run.objects.count() == 1
