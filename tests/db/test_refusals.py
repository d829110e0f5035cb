"""What is refused of runs, saves, branches, sweeps, comparisons and pipelines: by route and by command alike."""

import json

import pytest
from django.test import Client

from evaluations.management.commands.comparisons import Command as Comparisons
from evaluations.management.commands.pipelines import Command as Pipelines
from evaluations.models import Pipeline
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from runs.errors import RunRefused
from runs.management.commands.runs import Command as Runs
from runs.management.commands.snapshots import Command as Snapshots
from runs.models import Run, Snapshot
from runs.operations import advance_run, branch_run, sweep_runs
from runs.operations.branching import Wish, choose_mode
from tests.factories import make_device, make_run
from tests.playing import STARTED, claim, end, metrics, reread, save, say

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]
COMMANDS = {"runs": Runs, "snapshots": Snapshots, "comparisons": Comparisons, "pipelines": Pipelines}
EXITS = {400: 2, 404: 4, 409: 3, 422: 3}
RATE = "hyperparams.optimizer.learningRate"
NOWHERE = "f" * 64


@pytest.fixture
def parent():
    """A completed run with a whole save at 2, one of weights alone at 3, one of which nothing is left at 4, and its
    final one at 5."""
    make_device()
    run = make_run()
    advance_run(run.pk)
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(2), save(attempt, 2), metrics(3), save(attempt, 3, state=False), metrics(4),
        save(attempt, 4), metrics(5), save(attempt, 5, final=True))
    end(run, attempt, "finished")
    advance_run(run.pk)
    Snapshot.objects.filter(run=run, step=4).update(swept=["weights", "trainingState"])
    return reread(run)


@pytest.fixture
def box(parent):
    """The names of runs that are so far, of the saves, and of a pipeline that is over."""
    pausing = {"checkpoint": "save", "state": "requested", "requestedBy": "ada"}
    states = {"waiting": {"phase": "AWAITING_CAPACITY"}, "recording": {"phase": "RECORDING"},
              "training": {"phase": "TRAINING", "lease_token": 1, "observed_step": 3}, "paused": {"phase": "PAUSED"},
              "pausing": {"phase": "PAUSING", "lease_token": 2, "pause": pausing}}
    named = {name: make_run().pk for name in states}
    for name, columns in states.items():
        Run.objects.filter(pk=named[name]).update(**columns)
    steps = {"whole": 2, "bare": 3, "gone": 4}
    pipeline = Pipeline.objects.create(id="e" * 64, workload=parent.workload, phase="COMPLETED", descriptor={})
    return named | {"parent": parent.pk, "pipeline": pipeline.pk, "nowhere": NOWHERE, **{
        name: Snapshot.objects.get(run=parent, step=step).pk for name, step in steps.items()}}


def branching(**changes):
    return {"snapshot": "{whole}", "steps": 2} | changes


REFUSALS = [
    ("runs/{parent}/cancel", {}, "runs cancel {parent} --force", 409, "run_ended", "there is nothing to cancel"),
    ("runs/{recording}/cancel", {}, "runs cancel {recording} --force", 409, "too_late_to_cancel", "its work is done"),
    ("runs/{training}/pause", {"checkpoint": "now"}, "runs pause {training} --checkpoint now", 400,
     "checkpoint_unknown", "it must be save or latest"),
    ("runs/{training}/pause", {"checkpoint": "latest"}, "runs pause {training} --checkpoint latest", 422,
     "nothing_to_resume", "has trained 3 updates and holds no save with training state"),
    ("runs/{paused}/pause", {"checkpoint": "save"}, "runs pause {paused} --checkpoint save", 400,
     "run_already_paused", "is PAUSED already"),
    ("runs/{parent}/pause", {"checkpoint": "save"}, "runs pause {parent} --checkpoint save", 409, "run_ended",
     "there is nothing to pause"),
    ("runs/{recording}/pause", {"checkpoint": "save"}, "runs pause {recording} --checkpoint save", 409,
     "too_late_to_pause", "is RECORDING; it cannot be paused any more"),
    ("runs/{pausing}/pause", {"checkpoint": "latest"}, "runs pause {pausing} --checkpoint latest", 409,
     "pause_in_progress", "already pausing with --checkpoint save, not latest"),
    ("runs/{parent}/resume", {}, "runs resume {parent}", 409, "run_not_paused", "is COMPLETED, not PAUSED"),
    ("runs/{training}/prioritize", {}, "runs prioritize {training}", 409, "run_not_waiting", "is TRAINING; only runs"),
    ("runs/{waiting}/prioritize", {"behind": "{parent}"}, "runs prioritize {waiting} --behind {parent}", 409,
     "run_not_waiting", "is COMPLETED; only runs"),
    ("runs/{parent}/annotate", {"configName": "x" * 121}, "runs annotate {parent} --config-name " + "x" * 121, 400,
     "wrong_length", "configName has 121 characters; it may have at most 120"),
    ("runs/{parent}/smoke", None, "runs smoke {parent}", 404, "no_smoke_check", "is no smoke check"),
    ("runs/{parent}/rollouts", None, "runs rollouts {parent}", 404, "no_rollouts", "trains by sft, which samples no"),
    ("runs/{parent}/log?stream=x", None, "runs log {parent} --stream x", 400, "unknown_stream", "stdout or stderr"),
    ("runs/{waiting}/hparams", None, "runs hparams {waiting}", 404, "not_written", "has not written its hyperparam"),
    ("runs/{waiting}/engine-config", None, "runs engine-config {waiting}", 404, "not_written", "has not written its e"),
    ("runs?phase=resting", None, "runs list --phase resting", 400, "unknown_phase", "is no phase of a run"),
    ("runs/{waiting}/branch", branching(), "runs branch {waiting} --snapshot {whole} --steps 2", 404, "not_found",
     "snapshot"),
    ("runs/{parent}/branch", branching(steps=0), "runs branch {parent} --snapshot {whole} --steps 0", 422,
     "no_steps", "steps is 0; a branch trains at least one update"),
    ("runs/{parent}/branch", branching(snapshot="{gone}"), "runs branch {parent} --snapshot {gone} --steps 2", 422,
     "snapshot_kind_missing", "of step 4 holds no weights"),
    ("runs/{parent}/branch", branching(restoreMode="half"), "runs branch {parent} --snapshot {whole} --steps 2 "
     "--restore half", 422, "restore_mode_unknown", "it must be auto, weights, trainingState"),
    ("runs/{parent}/branch", branching(snapshot="{bare}", restoreMode="trainingState"), "runs branch {parent} "
     "--snapshot {bare} --steps 2 --restore trainingState", 422, "training_state_not_possible",
     "the snapshot of step 3 holds no training state"),
    ("runs/{nowhere}/tree", None, "runs tree {nowhere}", 404, "not_found", "run"),
    ("runs/{nowhere}/branches", None, "runs branches {nowhere}", 404, "not_found", "run"),
    ("runs/{nowhere}/ancestry", None, "runs ancestry {nowhere}", 404, "not_found", "run"),
    ("snapshots/{nowhere}", None, "snapshots get {nowhere}", 404, "not_found", "snapshot"),
    ("snapshots/{whole}/pin", {"kind": "all"}, "snapshots pin {whole} --kind all", 400, "snapshot_kind_unknown",
     "it must be weights or trainingState"),
    ("snapshots/{bare}/pin", {"kind": "trainingState"}, "snapshots pin {bare} --kind trainingState", 409,
     "snapshot_kind_missing", "of step 3 holds no trainingState"),
    ("snapshots/{gone}/pin", {}, "snapshots pin {gone}", 409, "snapshot_kind_missing", "of step 4 holds no"),
    ("snapshots/{whole}/unpin", {}, "snapshots unpin {whole}", 409, "snapshot_kind_missing", "is not pinned"),
    ("snapshots/{whole}/release", {"owner": "abc"}, "snapshots release {whole} abc", 404, "not_found",
     "Nothing that begins with 'abc' holds the snapshot"),
    ("snapshots/{gone}/register", {}, "snapshots register {gone}", 409, "snapshot_kind_missing",
     "of step 4 holds no weights"),
    ("snapshots/{whole}/candidate", None, "snapshots candidate {whole}", 404, "candidate_unknown",
     "Nobody has registered the snapshot"),
    ("comparisons", {"source": "{whole}"}, "comparisons create --source {whole}", 422, "dataset_required",
     "has no evaluation dataset, and none was named"),
    ("comparisons", {"source": "{whole}", "dataset": "triage/train"}, "comparisons create --source {whole} "
     "--dataset triage/train", 422, "comparison_refused", "Nothing was selected to compare the source with"),
    ("comparisons/{nowhere}", None, "comparisons get {nowhere}", 404, "not_found", "comparison"),
    ("pipelines/{pipeline}/cancel", {}, "pipelines cancel {pipeline} --force", 409, "phase_conflict",
     "is COMPLETED; there is nothing to cancel"),
    ("pipelines/{pipeline}/resume", {}, "pipelines resume {pipeline}", 409, "nothing_to_resume",
     "is COMPLETED; every stage has run"),
    ("pipelines/{nowhere}", None, "pipelines get {nowhere}", 404, "not_found", "pipeline"),
]


def filled(part, box):
    """A case's part with the box's names in it."""
    if isinstance(part, dict):
        return {key: filled(value, box) for key, value in part.items()}
    return part.format(**box) if isinstance(part, str) else part


def test_every_refusal_has_its_status_its_code_and_its_sentence_at_the_route(box):
    client, found, wanted = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"}), {}, {}
    for path, body, words, status, code, sentence in REFUSALS:
        address = f"/v1/training/{filled(path, box)}"
        answer = client.get(address) if body is None else client.post(address, json.dumps(filled(body, box)),
                                                                      content_type="application/json")
        told = answer.json()
        codes = {told.get("code"), *(problem["code"] for problem in told.get("problems", ()))}
        said = " ".join([told.get("detail", ""), *(problem["message"] for problem in told.get("problems", ()))])
        found[words] = (answer.status_code, code in codes or told.get("code"), sentence in said or said)
        wanted[words] = (status, True, True)
    assert found == wanted


def test_every_refusal_has_its_exit_status_and_its_sentence_at_the_command(box, capsys):
    found, wanted = {}, {}
    for _, _, words, status, _, sentence in REFUSALS:
        noun, *argv = words.format(**box).split()
        exit_status = COMMANDS[noun]().run(argv)
        said = "".join(capsys.readouterr())
        is_choice = "invalid choice" in said
        found[words] = (exit_status, is_choice or sentence in said or said)
        wanted[words] = (2 if is_choice else EXITS[status], True)
    assert found == wanted


@pytest.mark.parametrize(("words", "told"), [
    ("runs start", "Name a descriptor with -f FILE."),
    ("runs start --set kind=run --show-resolved", "--show-resolved requires --dry-run."),
    ("runs start --set kind=run --exit-status", "--exit-status requires --wait."),
    ("runs start --set kind=run --wait --dry-run", "--wait does not go with --dry-run."),
    ("runs start --set kind", "'kind' is not of the form PATH=VALUE."),
    ("runs start --set kind=run --set kind.more=1", "'kind.more' leads through kind, which is a value."),
    ("runs preview", "give RUN or -f FILE"),
    ("runs cancel aaaa", "--force"),
    ("pipelines start -f FILE --show-resolved", "--show-resolved requires --dry-run."),
    ("pipelines start -f FILE --exit-status", "--exit-status requires --wait."),
    ("pipelines cancel aaaa", "--force"),
])
def test_words_that_do_not_go_together_are_refused_before_anything_is_asked(capsys, tmp_path, words, told):
    (tmp_path / "p.json").write_text('{"kind": "pipeline", "stages": []}')
    noun, *argv = words.replace("FILE", str(tmp_path / "p.json")).split()
    assert COMMANDS[noun]().run(argv) in (2, 3)
    assert told in "".join(capsys.readouterr())


# Branches ------------------------------------------------------------------------------------------------------------


def whole(parent):
    return Snapshot.objects.get(run=parent, step=2)


def test_more_branches_of_a_save_than_a_comparison_scores_are_refused_and_earlier_ones_count(parent, monkeypatch):
    monkeypatch.setattr("runs.operations.sweeping.MOST_BRANCHES", 3)
    branch_run(Wish(whole(parent), 2), actor=LOCAL)

    def sweep(*rates):
        grid = {"axes": [{"path": RATE, "values": list(rates)}]}
        return sweep_runs(whole(parent), steps=2, grid=grid, submission_id="t", actor=LOCAL)

    with pytest.raises(RunRefused) as refused:
        sweep(1e-5, 2e-5, 3e-5)
    (problem,) = refused.value.problems
    assert (problem.path, problem.code) == ("grid", "too_many_branches")
    assert "has 1 branches and the sweep adds 3; one comparison scores at most 3" in problem.message
    assert Run.objects.filter(parent=parent).count() == 1
    assert len(sweep(1e-5, 2e-5).points) == 2
    assert not any(point.is_new for point in sweep(1e-5, 2e-5).points), "what is there already is not counted twice"


@pytest.mark.requirement("R290", "R289")
def test_a_sweep_chooses_how_each_point_is_restored_and_says_why(parent, capsys, tmp_path):
    optimizers = [{"learningRate": 2e-5}, {"learningRate": 2e-5, "weightDecay": 0.1}]
    grid = {"axes": [{"path": "hyperparams.optimizer", "values": optimizers}]}
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    words = ["sweep", parent.pk, "--snapshot", whole(parent).pk, "--steps", "2", "-g", str(tmp_path / "grid.json")]
    for more in (["--dry-run"], []):
        Runs().run([*words, *more, "-o", "json"])
        first, second = json.loads(capsys.readouterr().out)["points"]
        assert (first["restoreMode"], second["restoreMode"]) == ("trainingState", "weights"), more
        assert "The snapshot's optimizer" in first["restoreReason"]
        assert "hyperparams.optimizer.weightDecay is overridden" in second["restoreReason"]
    assert {run.restore_mode for run in Run.objects.filter(parent=parent)} == {"trainingState", "weights"}


@pytest.mark.requirement("R292", "R288")
def test_a_route_that_is_told_no_way_of_restoring_keeps_the_state_where_it_can(parent):
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})

    def post(verb, **body):
        return client.post(f"/v1/training/runs/{parent.pk}/{verb}", json.dumps({"steps": 2} | body),
                           content_type="application/json")

    modes = {}
    for step in (2, 3):
        source = Snapshot.objects.get(run=parent, step=step).pk
        grid = {"axes": [{"path": RATE, "values": [2e-5]}]}
        modes[step] = [post("branch", snapshot=source, dryRun=True).json()["restoreMode"],
                       post("branch", snapshot=source).json()["restoreMode"],
                       post("sweep", snapshot=source, grid=grid).json()["points"][0]["restoreMode"]]
    assert modes == {2: ["trainingState"] * 3, 3: ["weights"] * 3}
    again = {"snapshot": whole(parent).pk, "submissionId": "s"}
    statuses = [post("branch", **again).status_code for _ in range(2)]
    assert [post("branch", **again, dryRun=True).status_code, *statuses] == [200, 202, 200]


@pytest.mark.requirement("R289")
@pytest.mark.parametrize(("method", "penalty", "restored", "is_lost"), [
    ("dpo", None, "weights", True), ("dpo", None, "trainingState", False), ("dpo", None, "", False),
    ("grpo", 0.04, "weights", True), ("gspo", 0.04, "weights", True), ("grpo", 0.0, "weights", False),
    ("sft", None, "weights", False)])
def test_the_state_of_a_run_that_was_held_to_what_it_began_from_is_not_kept(parent, method, penalty, restored, is_lost):
    source = whole(parent)
    run = source.run
    run.method, run.restore_mode, run.source_snapshot_id = method, restored, source.pk if restored else None
    run.config = run.config | ({"rlHyperparams": {"klBeta": penalty}} if penalty is not None else {})

    class Same:
        """What the branch resolves to: the same method and devices."""

    Same.method, Same.execution = method, run.execution
    mode, reason, problems = choose_mode(Wish(source, 2), Same)
    assert (mode, "was compared with the adapter" in reason) == (("weights", True) if is_lost else (
        "trainingState", False))
    _, _, problems = choose_mode(Wish(source, 2, "trainingState"), Same)
    assert [problem.code for problem in problems] == ["training_state_not_possible"] * is_lost
