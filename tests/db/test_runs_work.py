"""What a run's job says and how it ends, as phases, figures, snapshots and the next attempt."""

import hashlib
import json

import pytest
from django.utils import timezone

from gpu_worker.drive import read_ending
from gpu_worker.engines.plans import complete
from optimize_site.kernel.errors import Unavailable
from optimize_site.kernel.models import Attempt, Lease
from optimize_site.kernel.work import Ending, attempt_folder
from registry.models import BaseModel
from runs import queries, render
from runs.errors import SnapshotDamaged
from runs.management.commands.runs import Command
from runs.models import Metric, Run, Snapshot
from runs.operations import advance_run
from runs.phases import PHASES
from runs.snapshots import verify_kind
from tests.factories import make_dataset, make_device, make_run
from tests.playing import STARTED, WORK, claim, end, failure, metrics, phases_of, reread, save, say, stage

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def device(db):
    return make_device()


@pytest.fixture
def run(device):
    made = make_run()
    advance_run(made.pk)
    return reread(made)


# Waiting, starting, the plan -----------------------------------------------------------------------------------------


def test_a_run_waits_for_a_device_of_its_profile(run, device):
    other = make_device("GPU-1", profile="h200", kind="gpu")
    assert [row.pk for row in WORK.waiting(device)] == [run.pk]
    assert list(WORK.waiting(other)) == []
    Run.objects.update(cancel_requested_at=timezone.now())
    assert list(WORK.waiting(device)) == []


@pytest.mark.requirement("R180")
def test_a_claim_starts_the_run_under_the_lease_s_token(run):
    attempt = claim(run)
    run = reread(run)
    assert (run.phase, run.lease_token, run.num_attempts) == ("STARTING_JOB", attempt.lease.token, 1)


def test_the_plan_states_every_setting_and_where_the_files_are(run):
    attempt = claim(run)
    plan = WORK.plan(WORK.get(run.pk), attempt)
    whole = complete(plan, attempt=attempt.pk, subject={"kind": "run", "id": run.pk}, threads=1,
                     device={"kind": "cpu", "uuids": []})
    assert whole["config"] == run.config
    assert whole["base_model"]["repository"] == "acme/tiny"
    assert whole["dataset"]["content_hash"] == run.config["dataset"]
    assert (whole["resume"], whole["first_attempt"], whole["validation"]) == (None, True, None)
    assert attempt.resumed_step is None


@pytest.mark.requirement("R085")
def test_the_plan_names_the_validation_rows(device):
    make_run()
    make_dataset("triage/held-out", 4)
    made = make_run(config={"data": {"validationDataset": "triage/held-out"}})
    plan = WORK.plan(made, Attempt(number=1))
    assert plan["validation"]["num_examples"] == 4
    assert plan["validation"]["files"] != plan["dataset"]["files"]


def test_a_base_model_that_is_not_there_any_more_keeps_the_job_from_starting(run):
    attempt = claim(run)
    BaseModel.objects.update(revision="another")
    with pytest.raises(Unavailable):
        WORK.plan(WORK.get(run.pk), attempt)


# Events to phases ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R178", "R180", "R181", "R186")
def test_a_first_attempt_passes_through_the_phases_in_order(run):
    attempt = claim(run)
    assert say(run, attempt, STARTED).phase == "QUEUED"
    run = say(run, attempt, stage("tokenising", 3, 16))
    assert (run.phase, run.stage) == ("PREPARING", {"name": "tokenising", "done": 3, "total": 16})
    assert say(run, attempt, metrics(1)).phase == "TRAINING"
    assert end(run, attempt, "finished").phase == "RECORDING"
    assert phases_of(run) == ["AWAITING_BASE_MODEL", "AWAITING_CAPACITY", "STARTING_JOB", "QUEUED", "PREPARING",
                              "TRAINING", "RECORDING"]
    assert reread(run).lease_token is None


@pytest.mark.requirement("R177", "R181")
def test_each_step_s_figures_are_kept_and_a_replayed_step_replaces_its_row(run):
    attempt = claim(run)
    run = say(run, attempt, STARTED, metrics(1, 3.0), metrics(2, 2.0, learning_rate=0.1), metrics(2, 1.5))
    assert run.observed_step == 2
    assert [(row.step, row.values["loss"]) for row in queries.metrics_of(run)] == [(1, 3.0), (2, 1.5)]
    assert "learning_rate" not in queries.metrics_of(run)[1].values
    assert [row.step for row in queries.metrics_of(run, limit=1)] == [2]
    attempt.refresh_from_db()
    assert (attempt.first_step, attempt.last_step) == (1, 2)


def test_figures_that_were_read_at_once_are_stored_at_once(run, django_assert_max_num_queries):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1))
    with django_assert_max_num_queries(6):
        say(run, attempt, *(metrics(step, loss=step / 10) for step in (2, 3, 4, 3, 4, 5)))
    row = reread(run)
    assert [(one.step, one.values["loss"]) for one in row.metrics.order_by("step")] == [
        (1, 1.0), (2, 0.2), (3, 0.3), (4, 0.4), (5, 0.5)]
    attempt.refresh_from_db()
    assert (row.observed_step, attempt.first_step, attempt.last_step) == (5, 1, 5)


@pytest.mark.requirement("R086")
def test_validation_stands_beside_the_training_loss_and_the_last_reading_is_shown(run):
    attempt = claim(run)
    reading = {"type": "validation", "step": 2, "loss": 0.231, "perplexity": 1.26}
    run = say(run, attempt, STARTED, metrics(1), metrics(2, 0.2), reading)
    steps = [render.metric_document(row) for row in queries.metrics_of(run)]
    assert (steps[1]["loss"], steps[1]["validationLoss"], steps[1]["perplexity"]) == (0.2, 0.231, 1.26)
    assert "validationLoss" not in steps[0]
    assert render.run_document(run)["validation"] == {"step": 2, "loss": 0.231, "perplexity": 1.26}


@pytest.mark.requirement("R177")
def test_the_saved_step_is_the_newest_restorable_save(run):
    attempt = claim(run)
    run = say(run, attempt, STARTED, metrics(1), save(attempt, 1), metrics(2), save(attempt, 2, state=False),
              metrics(3))
    assert (run.observed_step, run.saved_step) == (3, 1)
    assert [row.step for row in queries.snapshots_of(run)] == [2, 1]


@pytest.mark.requirement("R160")
def test_what_the_job_writes_once_is_kept(run):
    attempt = claim(run)
    fit = {"rows": 15, "tooLong": 1, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.1, "longest": 9}
    run = say(run, attempt, STARTED, {"type": "hparams", "values": {"a": 1}, "sha": "x"},
              {"type": "engine_config", "requested": {"a": 1}, "resolved": {"a": 2}},
              {"type": "plan_size", "totalSteps": 7, "rowsPerEpoch": 15}, {"type": "data_fit"} | fit,
              {"type": "check", "name": "reference", "passed": True, "value": 1e-6, "bound": 1e-5, "seconds": 1.0},
              *[{"type": "warning", "code": "w", "message": "Look."}] * 2)
    assert run.hparams == {"values": {"a": 1}, "sha": "x"}
    assert run.engine_config == {"requested": {"a": 1}, "resolved": {"a": 2}}
    assert (run.total_steps, run.data_fit) == (7, fit)
    assert run.checks[0]["name"] == "reference"
    assert [warning["code"] for warning in run.warnings] == ["unmeasured_envelope", "w"]


@pytest.mark.requirement("R095")
def test_rows_that_were_left_out_show_on_the_data_fit_line(run):
    from runs.text import result_rows

    fit = {"type": "data_fit", "rows": 15, "tooLong": 2, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.0,
           "longest": 9}
    run = say(run, claim(run), STARTED, fit)
    assert "2 left out as too long" in dict(result_rows(render.run_document(run)))["Data fit"]
    run = say(run, Attempt.objects.get(), fit | {"tooLong": 0})
    assert "left out" not in dict(result_rows(render.run_document(run)))["Data fit"]


@pytest.mark.requirement("R100", "R103", "R368")
def test_trimmed_rows_and_removed_turns_show_on_the_data_fit_line_when_there_are_some(run):
    from runs.text import result_rows

    fit = {"type": "data_fit", "rows": 15, "tooLong": 0, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.0,
           "longest": 9, "trimmed": 3, "turnsRemoved": 7}
    run = say(run, claim(run), STARTED, fit)
    assert "3 trimmed (7 turns removed)" in dict(result_rows(render.run_document(run)))["Data fit"]
    assert "targetsCut" not in str(render.run_document(run))
    run = say(run, Attempt.objects.get(), fit | {"trimmed": 0, "turnsRemoved": 0})
    assert "trimmed" not in dict(result_rows(render.run_document(run)))["Data fit"]


@pytest.mark.requirement("R368")
def test_runs_get_shows_counts_and_padding_on_one_line_and_the_measured_peak_on_another(run, capsys):
    fit = {"type": "data_fit", "rows": 1500, "tooLong": 2, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.25,
           "longest": 9, "trimmed": 3, "turnsRemoved": 7}
    peak = {"peak_memory_bytes": 3 * 2**30, "memory_weights_bytes": 2 * 2**30, "memory_activations_bytes": 2**30}
    say(run, claim(run), STARTED, fit, metrics(1, peak_memory_bytes=2**30), metrics(2, **peak))
    assert Command().run(["get", run.pk]) == 0
    out = capsys.readouterr().out
    assert ("1,500 rows, 2 left out as too long, 3 trimmed (7 turns removed), longest 9 tokens, 5 of 50 tokens "
            "trained, 25% padding") in out
    assert "Memory            3.0 GiB = weights 2.0 GiB + activations 1.0 GiB at update 2" in out
    run = say(run, Attempt.objects.get(), fit | {"paddingShare": 0.0})
    assert render.run_document(run)["dataFit"]["paddingShare"] == 0.0
    assert Command().run(["get", run.pk]) == 0
    assert "padding" not in capsys.readouterr().out


@pytest.mark.requirement("R176")
def test_the_time_left_follows_from_the_last_steps_pace(run):
    attempt = claim(run)
    size = {"type": "plan_size", "totalSteps": 12, "rowsPerEpoch": 16}
    run = say(run, attempt, STARTED, size, metrics(1), metrics(2))
    progress = render.run_document(run)["progress"]
    assert (progress["step"], progress["totalSteps"], progress["etaSeconds"]) == (2, 12, 20.0)


# Endings -------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("harm", ["bytes", "missing", "manifest"])
def test_a_damaged_save_is_passed_over_for_an_older_one_and_that_is_told(run, harm):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1), metrics(2), save(attempt, 2))
    folder = attempt_folder(attempt.pk) / "snapshots" / "step-2"
    if harm == "missing":
        (folder / "optimizer.pt").unlink()
    else:
        (folder / ("state.manifest.json" if harm == "manifest" else "optimizer.pt")).write_bytes(b"{}")
    run = end(run, attempt, "lost", exit={"signal": 9})
    assert WORK.plan(WORK.get(run.pk), claim(run))["resume"]["step"] == 1
    told = queries.events_of(run).get(type="run.snapshot_passed_over")
    assert told.data["step"] == 2
    assert told.reason


def test_a_manifest_that_names_a_file_elsewhere_is_refused(tmp_path):
    manifest = json.dumps({"files": {"../x": {"sha256": "0"}}}).encode()
    (tmp_path / "weights.manifest.json").write_bytes(manifest)
    with pytest.raises(SnapshotDamaged, match="outside"):
        verify_kind(tmp_path, "weights", hashlib.sha256(manifest).hexdigest())


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


def test_the_log_s_end_is_read_from_the_newest_attempt(run):
    attempt = claim(run)
    folder = attempt_folder(attempt.pk)
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text("\n".join(f"line {number}" for number in range(50)))
    assert queries.log_tail(run, lines=2)["lines"] == ["line 48", "line 49"]


@pytest.mark.requirement("R023")
def test_every_event_of_the_seam_is_taken_or_left(run):
    attempt = claim(run)
    say(run, attempt, STARTED, {"type": "progress", "done": 1, "total": 2}, {"type": "of_a_later_version"},
        {"type": "stopped", "reason": "stop", "step": 1}, {"type": "finished", "step": 1})
    assert reread(run).phase in PHASES.active
    assert Metric.objects.count() == 0
