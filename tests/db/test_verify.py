"""`runs verify` says OK of a run that is what it says, and exactly what disagrees of one that is not."""

import hashlib
import json
import shutil

import pytest
from django.urls import reverse

from optimize_site.kernel import accounts, short_jobs
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.errors import Refused
from optimize_site.kernel.models import Event, Lease
from optimize_site.kernel.work import attempt_folder
from runs import queries
from runs.management.commands.runs import Command
from runs.models import Metric, Run
from runs.operations import advance_run, pause_run, register_candidate, resume_run, tend_snapshots, verify_run
from runs.operations.replay import replay
from tests.factories import make_device, make_run
from tests.playing import STARTED, claim, end, metrics, reread, save, say

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def training(db):
    """A run in training that was lost once, so that updates 3 and 4 were trained twice."""
    make_device()
    run = make_run()
    advance_run(run.pk)
    first = claim(run)
    say(run, first, STARTED, metrics(1), metrics(2), save(first, 2), metrics(3), metrics(4))
    end(run, first, "lost", exit={"signal": 9})
    second = claim(run)
    say(run, second, STARTED, metrics(3), metrics(4), save(second, 4), metrics(5))
    return run, second


@pytest.fixture
def done(training):
    run, attempt = training
    say(run, attempt, save(attempt, 5, final=True))
    end(run, attempt, "finished")
    advance_run(run.pk)
    return reread(run)


def problems(run):
    """Each disagreement with the check that found it."""
    found = verify_run(run, actor=LOCAL)
    said = [(check["name"], problem) for check in found["checks"] for problem in check["problems"]]
    assert found["verified"] == (not said)
    return said


def test_a_run_that_was_lost_and_went_on_is_ok(done):
    assert problems(done) == []
    counts = {check["name"]: check["count"] for check in verify_run(done, actor=LOCAL)["checks"]}
    assert counts == {"configuration": 1, "phases": 12, "attempts": 2, "figures": 5, "saves": 6, "models": 1}


def test_a_run_is_ok_while_it_trains_rests_and_waits(training):
    run, attempt = training
    assert problems(run) == []
    pause_run(reread(run), checkpoint="latest", actor=LOCAL)
    end(run, attempt, "stopped")
    assert reread(run).phase == "PAUSED" and problems(run) == []
    resume_run(reread(run), actor=LOCAL)
    assert problems(run) == []


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "optimizer.pt", "weights.manifest.json",
                                  "state.manifest.json"])
@pytest.mark.parametrize("how", ["flipped", "shortened", "gone"])
def test_a_file_of_a_save_that_changed_is_named_with_its_update(done, name, how):
    path = queries.folder_of_snapshot(done.snapshots.get(step=4)) / name
    damage(path, how)
    (check, problem), = problems(done)
    assert check == "saves" and problem.startswith("Update 4, attempt 2: step-4: ")
    assert ("manifest" if "manifest" in name else name) in problem


def damage(path, how):
    """Flip a bit of a file, cut its end off, or remove it."""
    data = path.read_bytes()
    path.chmod(0o600)
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:] if how == "flipped" else data[:-1])


@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_a_model_whose_bytes_changed_is_named(done, how):
    sha256 = next(entry["sha256"] for entry in done.model.objects_listing if entry["path"].endswith(".safetensors"))
    damage(blob_path(sha256), how)
    (check, problem), = problems(done)
    assert check == "models" and f"{done.model.reference}: adapter_model.safetensors" in problem and sha256 in problem


def test_a_model_of_a_save_is_held_against_that_save(done):
    candidate = register_candidate(done.snapshots.get(step=2), actor=LOCAL)
    tend_snapshots()
    assert problems(done) == []
    candidate.refresh_from_db()
    version = candidate.version
    version.objects_listing = done.model.objects_listing
    version.lineage |= {"configHash": "0" * 64}
    version.save()
    said = [problem for _, problem in problems(done)]
    assert len(said) == 2
    assert "names the configuration 0000" in said[0] and "the save of update 2 that it was made of has" in said[1]


def test_what_retention_removed_is_not_missed(done):
    done.execution |= {"keepAdapters": 1, "keepTrainingStates": 1}
    done.save()
    tend_snapshots()
    assert not queries.folder_of_snapshot(done.snapshots.get(step=2)).exists()
    assert problems(done) == []


def test_a_completed_run_without_a_final_save_or_a_model_is_told(done):
    done.snapshots.filter(is_final=True).delete()
    Run.objects.filter(pk=done.pk).update(model=None)
    assert [problem for _, problem in problems(done)] == [
        "The run is COMPLETED and has no final save with weights.", "The run is COMPLETED and has no model."]


def test_a_gap_in_the_figures_is_named(done):
    Metric.objects.filter(run=done, step__in=[2, 4]).delete()
    assert problems(done) == [("figures", "The figures of 2 updates are missing: 2, 4.")]


def test_figures_that_end_before_the_final_save_are_told(done):
    Metric.objects.filter(run=done, step=5).delete()
    assert problems(done) == [("figures", "The final save is of update 5, and the last figures are of update 4.")]


def test_a_figure_that_a_later_attempt_should_have_replaced_is_told(done):
    Metric.objects.filter(run=done, step=4).update(attempt=1)
    assert problems(done) == [
        ("figures", "The figures of update 4 are of attempt 1, those of update 3 of attempt 2.")]


def test_phases_that_no_run_may_take_are_told(done):
    Event.objects.filter(subject_id=done.pk, type="run.preparing").delete()
    moved = Event.objects.get(subject_id=done.pk, type="run.recording")
    moved.delete()
    assert problems(done) == [
        ("phases", "An event moves the run from RECORDING; the one before had left it TRAINING.")]
    Event.objects.filter(subject_id=done.pk, type="run.completed").delete()
    assert ("phases", "The run is COMPLETED, and its last event left it CLEANING_UP.") in problems(done)
    wrong = Event.objects.filter(subject_id=done.pk, type="run.training").last()
    wrong.data |= {"phase": "COMPLETED"}
    wrong.save()
    assert any("no run may" in problem for _, problem in problems(done))


def test_another_configuration_than_the_one_recorded_is_told(done):
    done.config["maxSeqLength"] += 1
    done.save()
    (check, problem), = problems(done)
    assert check == "configuration" and done.config_hash in problem


def test_attempts_and_leases_that_disagree_with_the_run_are_told(training):
    run, _ = training
    Lease.objects.filter(released_at=None).update(token=1)
    Run.objects.filter(pk=run.pk).update(num_attempts=3)
    token = reread(run).lease_token
    assert problems(run) == [
        ("attempts", "The run counts 3 attempts; those recorded are 1, 2."),
        ("attempts", f"The run is TRAINING under token {token}, and its slots are held under token 1.")]


def test_the_command_says_ok_or_what_disagrees_and_exits_with_8(done, capsys):
    assert Command().run(["verify", done.pk[:12]]) == 0
    assert "OK: everything agrees." in capsys.readouterr().out
    shutil.rmtree(queries.folder_of_snapshot(done.snapshots.get(step=4)))
    assert Command().run(["verify", done.pk[:12]]) == 8
    said = capsys.readouterr().out
    assert "Not OK" in said and "saves: Update 4, attempt 2: step-4: the manifest cannot be read" in said
    assert Command().run(["verify", done.pk, "-o", "json"]) == 8
    assert json.loads(capsys.readouterr().out)["verified"] is False


# Replay --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def trained_again(done, monkeypatch):
    """Stands in for the job of a replay: `{"plan", "answer", …}` of what it was told, and what it reports."""
    told = {}

    class Jobs:
        def run(self, plan, *, kind, threads, seconds):
            told.update(plan=plan, kind=kind, threads=threads, seconds=seconds)
            return {"report": told["answer"]}

    monkeypatch.setattr(short_jobs, "_jobs", Jobs())
    plan = attempt_folder(queries.attempts_of(done).last().pk) / "plan.json"
    plan.write_text(json.dumps({"entry": "sft", "attempt": "a", "threads": 3, "device": {"kind": "cpu"}, "resume": None,
                                "validation": {"files": []}, "execution": {"saveEvery": 2}, "pause_at": None}))
    files = {name: hashlib.sha256(path.read_bytes()).hexdigest()
             for path in queries.folder_of_snapshot(done.snapshots.get(step=5)).iterdir() for name in [path.name]}
    told["answer"] = {"step": 5, "files": files, "figures": {str(row.step): {"loss": row.values["loss"]}
                                                            for row in done.metrics.all()}}
    return told


def replayed(run):
    return next(check for check in verify_run(run, replayed=True, actor=LOCAL)["checks"] if check["name"] == "replay")


def test_a_replay_trains_the_newest_stretch_between_two_saves_by_the_recorded_plan(done, trained_again):
    assert replayed(done) == {"name": "replay", "count": 1, "unit": "updates from 4 to 5", "problems": []}
    plan = trained_again["plan"]
    assert (plan["entry"], plan["resume"]["step"], plan["pause_at"], plan["validation"]) == ("replay", 4, None, None)
    assert plan["execution"] == {"saveEvery": None}
    assert (trained_again["threads"], trained_again["kind"]) == (3, "replay")


@pytest.mark.parametrize(("name", "told"), [("optimizer.pt", "Update 5: optimizer.pt was saved with the hash"),
                                            ("adapter_model.safetensors", "adapter_model.safetensors was saved")])
def test_other_bytes_are_told_by_the_file_they_are_in(done, trained_again, name, told):
    trained_again["answer"]["files"][name] = "0" * 64
    problem, = replayed(done)["problems"]
    assert told in problem and "trained again from update 4 it has 0000" in problem


def test_the_first_update_with_another_loss_is_named(done, trained_again):
    trained_again["answer"]["figures"]["5"]["loss"] = 9.5
    problem, = replayed(done)["problems"]
    assert problem.startswith("The loss of update 5 was ") and problem.endswith("trained again it is 9.5.")
    trained_again["answer"]["figures"]["5"]["reward"] = 0.5
    problem, = replayed(done)["problems"]
    assert problem == "The reward of update 5 was None; trained again it is 0.5."


def test_a_replay_is_refused_where_bytes_are_not_promised_or_it_would_take_too_long(done, trained_again):
    last = done.metrics.get(step=5)
    last.values |= {"step_seconds": 601}
    last.save()
    with pytest.raises(Refused, match=r"took 601 seconds from update 4 to 5, and 600 are the most"):
        verify_run(done, replayed=True, actor=LOCAL)
    done.execution |= {"deviceProfile": "h100"}
    done.save()
    with pytest.raises(Refused, match="trains on h100; no stretch of it can be replayed"):
        verify_run(done, replayed=True, actor=LOCAL)


@pytest.mark.parametrize(("method", "sampler", "reward", "why"), [
    ("grpo", "own", [{"name": "vowels"}], ""),
    ("gspo", "own", [{"name": "vowels"}], ""),
    ("grpo", "vllm", [{"name": "vowels"}], "was sampled for by vLLM"),
    ("grpo", "own", [{"name": "taste", "judge": {"modelId": "m"}}], "is rewarded by a model")])
def test_a_run_that_learned_from_rewards_is_trained_again_unless_what_answered_it_does_not_repeat(
        done, trained_again, method, sampler, reward, why):
    done.method, done.references = method, done.references | {"reward": reward}
    plan = attempt_folder(queries.attempts_of(done).last().pk) / "plan.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"sampler": {"kind": sampler}}))
    if why:
        with pytest.raises(Refused, match=why):
            replay(done)
    else:
        assert replay(done).problems == ()


def test_a_service_that_rewarded_a_run_is_not_asked_again(done, trained_again):
    graded = {"kind": "grader", "grader": "http:https://judge.example/score", "weight": 1}
    done.method, done.config = "grpo", done.config | {"reward": {"terms": [graded]}}
    with pytest.raises(Refused, match="is rewarded by a service"):
        replay(done)
    done.config["reward"]["terms"] = [graded | {"grader": "exact"}]
    assert replay(done).problems == ()


def test_nothing_is_trained_again_of_a_run_that_disagrees_already(done, trained_again):
    Metric.objects.filter(run=done, step=4).delete()
    assert "replay" not in {check["name"] for check in verify_run(done, replayed=True, actor=LOCAL)["checks"]}
    assert "plan" not in trained_again


def test_a_viewer_may_verify_and_only_an_operator_may_have_it_trained_again(done, trained_again, client, capsys):
    assert Command().run(["verify", done.pk[:12], "--replay"]) == 0
    assert "updates from 4 to 5" in capsys.readouterr().out
    client.force_login(accounts.create_user("a-viewer", "viewer", actor=LOCAL)[0])
    page = reverse("runs:verify", args=[done.pk])
    assert client.get(page).status_code == 200
    assert client.get(f"{page}?replay=1").status_code == 403
    client.force_login(accounts.create_user("an-operator", "operator", actor=LOCAL)[0])
    assert "updates from 4 to 5" in client.get(f"{page}?replay=1").content.decode()
