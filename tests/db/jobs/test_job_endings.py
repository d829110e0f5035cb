"""How a run's job ended: recorded, failed, tried again from its newest save, cancelled."""

import json

import pytest
from django.utils import timezone

from gpu_worker.drive import read_ending
from optimize_site.kernel.models import Attempt, Lease
from optimize_site.kernel.work import Ending, attempt_folder
from runs import queries, render
from runs.models import Run, Snapshot
from runs.operations import advance_run
from tests.factories import make_run
from tests.playing import STARTED, WORK, claim, end, failure, metrics, phases_of, reread, save, say

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("R018", "R187", "R188")
def test_a_finished_run_registers_its_adapter_once_with_its_lineage(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1, final=True))
    end(run, attempt, "finished")
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.model.produced_by_id) == ("COMPLETED", run.pk)
    assert run.model.lineage["configHash"] == run.config_hash
    assert run.model.lineage["datasetHash"] == run.config["dataset"]
    assert {item["path"] for item in run.model.objects_listing} == {"adapter_model.safetensors", "adapter_config.json"}
    document = render.run_document(run)
    assert (document["modelId"], document["model"]) == (run.model_id, run.model.reference)
    advance_run(run.pk)
    assert phases_of(run)[-3:] == ["RECORDING", "CLEANING_UP", "COMPLETED"]


def test_a_model_that_cannot_be_stored_yet_is_stored_later(run, monkeypatch):
    from runs.operations import advance

    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1, final=True))
    end(run, attempt, "finished")
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(advance, "register_adapter", lambda *_: (_ for _ in ()).throw(full))
    advance_run(run.pk)
    assert (reread(run).phase, "No space left" in reread(run).wait_reason) == ("RECORDING", True)
    monkeypatch.undo()


@pytest.mark.requirement("R176")
@pytest.mark.parametrize("code", ["bad_row", "row_too_long", "nothing_to_train", "no_target_modules", "non_finite_loss",
                                  "non_finite_gradient", "non_finite_weights", "out_of_host_memory",
                                  "disk_full", "reward_failed"])
def test_a_failure_that_would_only_repeat_ends_the_run_and_says_what_to_change(run, code):
    attempt = claim(run)
    say(run, attempt, STARTED, failure(code, "Row 3 is wrong."))
    end(run, attempt, "failed")
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.failure_code, run.failure_reason, run.failure_hint) == (
        "FAILED", code, "Row 3 is wrong.", "Mend it.")
    assert (run.model, run.failure_evidence) == (None, {"rows": [3]})
    assert render.run_document(run)["failureReason"] == "Row 3 is wrong."


@pytest.mark.parametrize("code", ["unexpected", "scorer_lost"])
def test_a_failure_that_may_pass_is_tried_once_more_and_the_same_one_again_is_the_end(run, code):
    attempt = claim(run)
    say(run, attempt, STARTED, failure(code))
    run = end(run, attempt, "failed")
    assert run.phase == "AWAITING_CAPACITY"
    assert render.run_document(run)["failureReason"] is None
    second = claim(run)
    run = say(run, second, STARTED)
    assert (run.failure_code, run.num_attempts) == ("", 2)
    say(run, second, failure(code))
    assert end(run, second, "failed").phase == "CLEANING_UP"


@pytest.mark.requirement("R016")
def test_a_run_whose_job_died_goes_on_from_its_newest_save(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1), metrics(2), save(attempt, 2), metrics(3))
    run = end(run, attempt, "lost", exit={"code": None, "signal": 9})
    assert (run.phase, run.lease_token) == ("AWAITING_CAPACITY", None)
    again = claim(run)
    plan = WORK.plan(WORK.get(run.pk), again)
    assert (plan["resume"]["step"], plan["first_attempt"], again.resumed_step) == (2, False, 2)
    assert plan["resume"]["folder"] == str(attempt_folder(attempt.pk) / "snapshots" / "step-2")
    again.save()
    assert say(run, again, STARTED).observed_step == 2


def test_without_a_save_it_starts_again(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1))
    run = end(run, attempt, "lost", exit={"signal": 9})
    assert WORK.plan(WORK.get(run.pk), claim(run))["resume"] is None


def test_a_job_that_keeps_dying_without_a_save_ends_the_run(run, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_MAX_ATTEMPTS", "3")
    for _ in range(2):
        attempt = claim(run)
        say(run, attempt, STARTED, metrics(1))
        assert end(run, attempt, "lost", exit={"signal": 11}).phase == "AWAITING_CAPACITY"
    attempt = claim(run)
    run = end(run, attempt, "lost", exit={"signal": 11}, last_words="Segmentation fault")
    assert (run.phase, run.failure_code) == ("CLEANING_UP", "job_lost")
    assert "3 times" in run.failure_reason
    assert "signal 11" in run.failure_reason
    assert run.failure_evidence["lastWords"] == "Segmentation fault"


def test_a_save_between_deaths_counts_as_progress(run, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_MAX_ATTEMPTS", "2")
    for step in range(1, 4):
        attempt = claim(run)
        say(run, attempt, STARTED, metrics(step), save(attempt, step))
        assert end(run, attempt, "lost", exit={"signal": 9}).phase == "AWAITING_CAPACITY"


def test_a_job_that_the_kernel_ended_for_memory_says_so_and_is_not_tried_again(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1))
    run = end(run, attempt, "lost", exit={"signal": 9, "oom_kill": True})
    assert (run.phase, run.failure_code) == ("CLEANING_UP", "out_of_host_memory")
    assert "memory" in run.failure_reason
    assert "microBatchSequences" in run.failure_hint


@pytest.mark.parametrize("is_said_by_the_job", [True, False])
@pytest.mark.parametrize(("shares", "names", "hint"), [
    (True, ["t/one:v1"], "The reward has a judge on this machine too, t/one:v1: judge with a smaller model"),
    (True, ["t/one:v1", "t/two:v1"], "The reward has judges on this machine too, t/one:v1 and t/two:v1: judge"),
    (False, ["t/one:v1"], "")])
def test_a_run_that_had_no_memory_names_the_judges_that_share_the_machine(run, is_said_by_the_job, shares, names, hint):
    Run.objects.filter(pk=run.pk).update(predicted_memory={
        "bytes": 1, "judges": {"isShared": shares, "models": [{"model": name} for name in names]}})
    attempt = claim(run)
    if is_said_by_the_job:
        say(run, attempt, STARTED, failure("out_of_host_memory"))
        run = end(run, attempt, "failed")
    else:
        run = end(run, attempt, "lost", exit={"signal": 9, "oom_kill": True})
    assert run.failure_code == "out_of_host_memory"
    assert ("on this machine too" in run.failure_hint) is shares
    assert hint in run.failure_hint and run.failure_hint.startswith(("Lower", "Mend"))


@pytest.mark.requirement("R358")
def test_a_job_that_the_kernel_ended_in_a_known_pass_says_how_many_tokens_would_fit(run):
    attempt = claim(run)
    folder = attempt_folder(attempt.pk)
    folder.mkdir(parents=True)
    (folder / "pass.json").write_text(json.dumps({"step": 2, "passTokens": 8192, "fittingTokens": 4100}).ljust(120))
    (folder / "exit.json").write_text(json.dumps({"code": None, "signal": 9, "oom_kill": True}))
    run = end(run, attempt, "lost", exit=read_ending(folder).exit)
    assert "in update 2, in a pass of 8,192 tokens" in run.failure_reason
    assert run.failure_reason.endswith("about 4,100 would fit.")
    assert "no pass holds more than about 4,100 tokens" in run.failure_hint
    assert run.failure_evidence["exit"]["pass"]["fittingTokens"] == 4100


@pytest.mark.requirement("R016")
@pytest.mark.parametrize("outcome", ["lost", "stopped"])
def test_a_run_whose_job_is_gone_goes_on_before_those_that_waited_behind_it(run, outcome):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1))
    advance_run(make_run().pk)
    end(run, attempt, outcome, exit={"signal": 9})
    assert claim(reread(run)).number == 2


@pytest.mark.requirement("R184")
def test_a_stopped_job_goes_through_pausing_and_waits_again(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1))
    run = end(run, attempt, "stopped")
    assert phases_of(run)[-2:] == ["PAUSING", "AWAITING_CAPACITY"]


@pytest.mark.requirement("R175")
@pytest.mark.parametrize("outcome", ["stopped", "lost", "failed"])
def test_a_cancelled_run_ends_cancelled_however_its_job_ended(run, outcome):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1))
    Run.objects.update(cancel_requested_at=timezone.now())
    assert WORK.ask(reread(run)) == "stop"
    end(run, attempt, outcome)
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.failure_code) == ("CANCELLED", "")
    assert Snapshot.objects.filter(run=run).count() == 1
    assert Lease.objects.filter(released_at=None).count() == 0


def test_a_run_that_finished_before_the_cancel_reached_it_is_completed(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1, final=True))
    Run.objects.update(cancel_requested_at=timezone.now())
    end(run, attempt, "finished")
    advance_run(run.pk)
    assert reread(run).phase == "COMPLETED"


def test_an_ending_told_twice_changes_nothing(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1))
    run = end(run, attempt, "lost", exit={"signal": 9})
    count = queries.events_of(run).count()
    WORK.on_exit(WORK.get(run.pk), attempt, Ending("lost", {}, ""))
    assert queries.events_of(run).count() == count


@pytest.mark.requirement("R023", "R176")
def test_device_seconds_and_time_in_each_phase_are_accounted(run, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_COST_RATE_PER_DEVICE_HOUR", "3.6")
    attempt = claim(run)
    started = timezone.now() - timezone.timedelta(seconds=100)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=started)
    attempt.refresh_from_db()
    say(run, attempt, STARTED, metrics(1))
    running = queries.cost_of(reread(run))
    assert running["isEstimate"]
    assert running["deviceSeconds"] >= 100
    run = end(run, attempt, "stopped")
    cost = queries.cost_of(run)
    assert not cost["isEstimate"]
    assert cost["deviceSeconds"] == pytest.approx(100, abs=5)
    assert cost["amount"] == pytest.approx(cost["deviceSeconds"] / 1000, abs=1e-4)
    assert set(queries.phase_millis(run)) >= {"AWAITING_CAPACITY", "STARTING_JOB", "TRAINING"}
