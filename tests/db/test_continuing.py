"""Going on with a run's training, and branches with a horizon in epochs: what they start from and are refused for."""

import json

import pytest

from optimize_site.kernel.auth import LOCAL
from runs.errors import NoTrainingState, RunRefused, SubmissionConflict
from runs.management.commands.runs import Command
from runs.models import Run, Snapshot
from runs.operations import advance_run, branch_run, plan_branch, why_not_continue, wish_to_continue
from runs.operations.branching import Wish
from tests.factories import make_device, make_run
from tests.playing import STARTED, WORK, claim, end, metrics, reread, save, say

pytestmark = pytest.mark.django_db
RATE = {"hyperparams": {"optimizer": {"learningRate": 5e-5}}}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


def saved(run, *saves):
    """The run at its update 4, with these saves: `(update, whether it holds a training state)`."""
    advance_run(run.pk)
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(4), *(save(attempt, step, state=state) for step, state in saves))
    return reread(run), attempt


@pytest.fixture
def parent(db):
    """A completed run with whole saves at 1 and 2 and one of weights alone at its end, 4."""
    make_device()
    run, attempt = saved(make_run(), (1, True), (2, True))
    say(run, attempt, save(attempt, 4, final=True, state=False))
    end(run, attempt, "finished")
    advance_run(run.pk)
    return reread(run)


def go_on(parent, steps=3, **stated):
    return branch_run(wish_to_continue(parent, steps=steps, **stated), actor=LOCAL)


def refused_with(wish):
    return {problem.code: problem for problem in plan_branch(wish, actor=LOCAL).problems}


def ask(capsys, *argv):
    status = Command().run([str(part) for part in argv])
    return status or 0, capsys.readouterr()


def test_training_goes_on_from_the_newest_save_that_holds_a_training_state(parent):
    child = go_on(parent, overrides=RATE).run
    assert (child.parent_id, child.source_snapshot.step, child.restore_mode) == (parent.pk, 2, "trainingState")
    assert (child.total_steps, child.config["hyperparams"]["optimizer"]["learningRate"]) == (3, 5e-5)
    named = Snapshot.objects.get(run=parent, step=1)
    assert go_on(parent, snapshot=named).run.source_snapshot == named


def test_the_validation_frequency_may_change_with_the_learning_rate_and_no_other_field(parent):
    both = {"hyperparams": {"training": {"validationFrequencySteps": 7}, **RATE["hyperparams"]}}
    child = go_on(parent, overrides=both).run
    assert child.config["hyperparams"]["training"]["validationFrequencySteps"] == 7
    assert child.restore_mode == "trainingState"
    other = {"hyperparams": {"training": {"seed": 7, "validationFrequencySteps": 7}}, "data": {"shuffle": False}}
    found = plan_branch(wish_to_continue(parent, steps=3, overrides=other), actor=LOCAL).problems
    assert {problem.code for problem in found} == {"training_state_not_possible"}
    told = " ".join(problem.message for problem in found)
    assert "hyperparams.training.seed is overridden" in told and "data.shuffle is overridden" in told
    assert "--restore weights" in found[0].hint


@pytest.mark.parametrize(("overrides", "why"), [
    ({"method": "dpo"}, "the method changes from sft to dpo"),
    ({"execution": {"gpus": 2}}, "execution.gpus changes from 1 to 2"),
])
def test_training_does_not_go_on_by_another_method_or_on_other_devices(parent, overrides, why):
    found = plan_branch(wish_to_continue(parent, steps=3, overrides=overrides), actor=LOCAL).problems
    assert any(problem.code == "training_state_not_possible" and why in problem.message for problem in found)


def test_a_run_that_was_held_to_the_adapter_it_started_from_cannot_be_gone_on_with(parent):
    grpo = {"method": "grpo"}
    source = branch_run(Wish(Snapshot.objects.get(run=parent, step=2), 3, overrides=grpo | {
        "grader": "json-label-match"}), actor=LOCAL).run
    child, _ = saved(source, (2, True))
    assert child.config["rlHyperparams"]["klBeta"] == 0.04
    problem = refused_with(wish_to_continue(child, steps=2))["training_state_not_possible"]
    assert "klBeta is 0.04, and its source was compared with the adapter that it started from" in problem.message
    assert why_not_continue(child) == problem.message.removeprefix("The training state cannot be kept: ")


@pytest.mark.parametrize(("saves", "sentence", "hint"), [
    ([], "has no save to go on from; it is TRAINING.", "Wait for its first save."),
    ([(3, False)], "keeps 1 save, none with a training state.", "Branch from the weights of one"),
])
def test_a_run_without_a_training_state_says_so_and_what_to_do(saves, sentence, hint):
    make_device()
    run, _ = saved(make_run(), *saves)
    with pytest.raises(NoTrainingState) as refused:
        wish_to_continue(run, steps=3)
    assert sentence in refused.value.detail and hint in refused.value.hint
    assert sentence in why_not_continue(run)


def test_a_smoke_check_is_not_gone_on_with(parent):
    assert why_not_continue(parent) == ""
    Run.objects.filter(pk=parent.pk).update(smoke={"sliceSize": 8})
    assert "slice of its rows by heart" in why_not_continue(reread(parent))
    assert "smoke_snapshot" in refused_with(wish_to_continue(reread(parent), steps=3))


def test_a_submission_sent_again_reaches_its_child_though_newer_saves_came(parent):
    first = go_on(parent, submission_id="s")
    Snapshot.objects.create(run=parent, attempt=1, step=9, folder="snapshots/step-9", size_bytes=1)
    again = go_on(parent, submission_id="s")
    assert (again.is_new, again.run.pk, again.run.source_snapshot.step) == (False, first.run.pk, 2)
    with pytest.raises(SubmissionConflict):
        go_on(parent, steps=9, submission_id="s")


def test_the_command_goes_on_with_a_run_and_its_dry_run_tells_from_where(parent, capsys, tmp_path):
    (tmp_path / "over.json").write_text(json.dumps(RATE))
    status, told = ask(capsys, "continue", parent.pk[:12], "--steps", "5", "-f", tmp_path / "over.json", "--dry-run")
    newest = Snapshot.objects.get(run=parent, step=2)
    assert status == 0 and f"step 2, snapshot {newest.pk[:12]}" in told.out and "trainingState" in told.out
    assert Run.objects.count() == 1
    status, told = ask(capsys, "continue", parent.pk, "--steps", "5", "-o", "json", "--submission-id", "s")
    child = json.loads(told.out)
    assert (status, child["sourceStep"], child["restoreMode"], child["isNew"]) == (0, 2, "trainingState", True)
    again = json.loads(ask(capsys, "continue", parent.pk, "--steps", "5", "-o", "json", "--submission-id", "s")[1].out)
    assert (again["childRunId"], again["isNew"]) == (child["childRunId"], False)
    older = Snapshot.objects.get(run=parent, step=4).pk
    status, told = ask(capsys, "continue", parent.pk, "--steps", "5", "--snapshot", older[:12])
    assert status == 3 and "the snapshot of step 4 holds no training state" in told.err
    assert ask(capsys, "continue", parent.pk, "--steps", "5", "--wait", "--dry-run")[0] == 2
    assert ask(capsys, "continue", parent.pk, "--steps", "5", "--exit-status")[0] == 2


# A horizon in epochs -------------------------------------------------------------------------------------------------


def test_a_branch_with_epochs_starts_from_the_weights_and_its_job_counts_its_updates(parent):
    source = Snapshot.objects.get(run=parent, step=2)
    child = branch_run(Wish(source, epochs=2, max_steps=30), actor=LOCAL).run
    assert (child.restore_mode, child.total_steps) == ("weights", None)
    assert "it trains for epochs of its own" in child.restore_reason
    training = child.config["hyperparams"]["training"]
    assert (training["epochs"], training["maxSteps"]) == (2, 30)
    advance_run(child.pk)
    attempt = claim(child)
    assert WORK.plan(WORK.get(child.pk), attempt)["total_steps"] is None
    say(child, attempt, STARTED, {"type": "plan_size", "totalSteps": 4, "rowsPerEpoch": 16})
    end(child, attempt, "stopped")
    assert WORK.plan(WORK.get(child.pk), claim(reread(child)))["total_steps"] == 4


def test_a_horizon_takes_the_place_of_its_parents(parent):
    stepped = branch_run(Wish(Snapshot.objects.get(run=parent, step=2), 3), actor=LOCAL).run
    assert stepped.config["hyperparams"]["training"]["maxSteps"] == 3
    child, _ = saved(stepped, (2, True))
    planned = plan_branch(Wish(Snapshot.objects.get(run=child, step=2), epochs=5), actor=LOCAL)
    assert planned.problems == ()
    assert planned.resolved.config["hyperparams"]["training"]["epochs"] == 5
    assert planned.resolved.config["hyperparams"]["training"]["maxSteps"] is None
    assert planned.resolved.total_steps == 10


@pytest.mark.parametrize(("budget", "code"), [
    ({}, "budget_unclear"), ({"steps": 3, "epochs": 1}, "budget_unclear"), ({"epochs": 0}, "no_epochs"),
    ({"steps": 3, "max_steps": 2}, "max_steps_without_epochs"), ({"epochs": 1, "max_steps": 0}, "no_steps"),
    ({"epochs": 1, "restore": "trainingState"}, "training_state_not_possible"),
])
def test_a_budget_that_says_nothing_or_two_things_is_refused(parent, budget, code):
    wish = Wish(Snapshot.objects.get(run=parent, step=2), **budget)
    assert code in refused_with(wish)
    with pytest.raises(RunRefused):
        branch_run(wish, actor=LOCAL)


def test_a_dry_run_says_the_steps_that_it_refuses(parent):
    planned = plan_branch(Wish(Snapshot.objects.get(run=parent, step=2), 0), actor=LOCAL)
    assert [problem.code for problem in planned.problems] == ["no_steps"]
    assert planned.resolved.total_steps == 0


def test_a_submission_with_another_horizon_is_another_request(parent):
    source = Snapshot.objects.get(run=parent, step=2)
    branch_run(Wish(source, epochs=2, submission_id="s"), actor=LOCAL)
    with pytest.raises(SubmissionConflict):
        branch_run(Wish(source, epochs=3, submission_id="s"), actor=LOCAL)


def test_the_branch_command_takes_epochs_instead_of_steps(parent, capsys):
    source = Snapshot.objects.get(run=parent, step=2).pk
    words = ("branch", parent.pk, "--snapshot", source)
    status, told = ask(capsys, *words, "--epochs", "2", "--max-steps", "3", "--dry-run", "-o", "json")
    found = json.loads(told.out)
    assert (status, found["valid"], found["budgetSteps"], found["restoreMode"]) == (0, True, 3, "weights")
    status, told = ask(capsys, *words)
    assert status == 3 and "states neither steps nor epochs" in told.err
    child = json.loads(ask(capsys, *words, "--epochs", "2", "-o", "json")[1].out)
    assert (child["restoreMode"], child["budgetSteps"]) == ("weights", None)
