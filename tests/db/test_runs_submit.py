"""Submitting runs: admission, dry runs, submissions that reach the same run, earlier runs of a recipe."""

import threading

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from datasets.models import ExampleSet
from optimize_site.kernel import scores
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.errors import Forbidden
from optimize_site.kernel.models import Device, Event, Lease
from registry.models import BaseModel, Namespace, Workload
from runs import queries, text
from runs.errors import RunEnded, RunRefused, SubmissionConflict, TooLateToCancel
from runs.models import Run
from runs.operations import advance_all, advance_run, annotate_run, cancel_run, check_run, submit_run
from runs.outlook import outlook_of
from tests.factories import (
    TINY,
    chat_rows,
    make_base_model,
    make_dataset,
    make_device,
    make_run,
    make_workload,
    measured,
    run_document,
)

pytestmark = pytest.mark.django_db
VIEWER, OPERATOR = Actor("eve", "viewer"), Actor("olga", "operator")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def ready(db):
    make_device()
    make_workload()
    make_dataset()
    make_base_model()


def submit(**changes):
    return submit_run(run_document(**changes), actor=LOCAL).run


def check(**changes):
    return check_run(run_document(**changes), actor=LOCAL)


def problems_of(**changes):
    return {problem["path"]: problem["code"] for problem in check(**changes)["problems"]}


def set_phase(run, phase, **columns):
    Run.objects.filter(pk=run.pk).update(phase=phase, **columns)
    run.refresh_from_db()
    return run


# Dry run -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R113", "R116", "R118")
def test_a_dry_run_tells_what_would_train_and_starts_nothing(ready):
    found = check()
    assert (found["valid"], found["problems"]) == (True, [])
    assert found["resolved"]["config"]["hyperparams"]["lora"]["rank"] == 8
    assert found["resolved"]["execution"]["saveEvery"] is None
    assert found["references"]["dataset"]["reference"] == "triage/train:v1"
    assert (Run.objects.count(), Lease.objects.count(), Event.objects.filter(subject_kind="run").count()) == (0, 0, 0)


@pytest.mark.requirement("R117")
def test_the_dry_run_resolves_to_what_the_started_run_records(ready):
    found, run = check(), submit()
    run.refresh_from_db()
    assert (found["resolved"]["config"], found["resolved"]["execution"]) == (run.config, run.execution)
    assert found["configHash"] == run.config_hash


def test_a_refused_dry_run_says_everything_and_still_resolves(ready):
    found = check(workload="nobody", config={"dataset": "nothing", "maxSeqLength": -1}, baseModel="acme/unknown")
    assert not found["valid"]
    assert found["configHash"] is None
    assert {problem["path"] for problem in found["problems"]} == {"workload", "config.dataset", "config.maxSeqLength",
                                                                  "baseModel"}
    assert found["resolved"]["config"]["maxSeqLength"] == 2048


def test_findings_cover_the_whole_dataset_where_it_is_small(ready):
    make_dataset("triage/doubled", chat_rows(5) + chat_rows(5))
    found = check(config={"dataset": "triage/doubled"})["diagnostics"]
    assert found["coverage"] == {"read": 10, "total": 10, "complete": True, "note": ""}
    assert found["duplicates"]["rows"] == 5
    assert found["duplicates"]["first"][0] == {"position": 5, "sameAs": 0}
    assert found["shapes"] == [{"roles": "user assistant", "rows": 10}]


@pytest.mark.requirement("R126")
def test_findings_over_a_large_dataset_say_how_much_was_read(ready, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_EXAMPLES", "4")
    coverage = check()["diagnostics"]["coverage"]
    assert (coverage["read"], coverage["total"], coverage["complete"]) == (4, 16, False)
    assert "may differ" in coverage["note"]
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_EXAMPLES", "1000")
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_BYTES", "300")
    assert check()["diagnostics"]["coverage"]["read"] < 16


@pytest.mark.requirement("R126")
def test_findings_over_many_shards_read_all_within_the_limits_and_else_the_first_rows_of_sixteen(ready, monkeypatch):
    examples = ExampleSet.objects.get()
    shards = [examples.shards[0] | {"path": f"examples-{number:05d}.jsonl"} for number in range(20)]
    ExampleSet.objects.update(shards=shards, num_examples=20 * 16)
    assert check()["diagnostics"]["coverage"]["complete"]
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_EXAMPLES", "48")
    found = check()["diagnostics"]
    assert (found["coverage"]["read"], found["coverage"]["total"]) == (16 * 3, 20 * 16)
    assert found["duplicates"]["first"][0] == {"position": 16, "sameAs": 0}
    rows = text.diagnostics_rows(found)
    assert rows[0][1] == "Read 48 of 320 examples for these findings; the rest may differ."
    assert [label for label, _ in rows].index("Read") < [label for label, _ in rows].index("Duplicates")


@pytest.mark.requirement("R127")
def test_an_unmeasured_run_is_warned_of_everywhere_and_keeps_the_warning(ready):
    run = submit()
    assert [warning["code"] for warning in check()["warnings"]] == ["unmeasured_envelope"]
    assert [warning["code"] for warning in run.warnings] == ["unmeasured_envelope"]


def test_a_viewer_may_try_a_descriptor_and_start_nothing(ready):
    assert check_run(run_document(), actor=VIEWER)["valid"]
    with pytest.raises(Forbidden):
        submit_run(run_document(), actor=VIEWER)


# Admission -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R038", "R051", "R085")
def test_what_a_descriptor_names_must_exist(ready):
    assert problems_of(workload="nobody") == {"workload": "unknown_workload"}
    assert problems_of(config={"dataset": "nothing"}) == {"config.dataset": "unknown_reference"}
    assert problems_of(config={"data": {"validationDataset": "nothing"}}) == {
        "config.data.validationDataset": "unknown_reference"}


@pytest.mark.requirement("R038", "R051")
def test_workload_and_dataset_are_named_in_every_way(ready):
    workload, version = Workload.objects.get(), make_dataset()
    hashes = {check(config={"dataset": name})["configHash"]
              for name in ("train", "triage/train", "triage/train:v1", version.content_hash, version.content_hash[:12])}
    assert len(hashes) == 1
    assert None not in hashes
    assert check(workload=workload.pk)["valid"]
    assert check(workload=workload.pk[:10])["valid"]


@pytest.mark.requirement("R039")
def test_the_base_model_may_be_the_workload_s(ready):
    body = run_document()
    del body["baseModel"]
    (problem,) = check_run(body, actor=LOCAL)["problems"]
    assert (problem["path"], problem["code"]) == ("baseModel", "required")
    _set_base_reference()
    run = submit_run(body, actor=LOCAL).run
    assert run.base_model == TINY


def _set_base_reference():
    from registry.operations.models import register_base_model
    from registry.operations.workloads import move_reference

    version = register_base_model(BaseModel.objects.get(), actor=LOCAL)
    move_reference(Workload.objects.get(), "base", version, actor=LOCAL)


@pytest.mark.requirement("R019", "R199")
def test_only_an_allowed_and_selected_base_model_is_admitted(ready):
    assert problems_of(baseModel="acme/unknown") == {"baseModel": "base_model_not_allowed"}
    assert problems_of(baseModel="Qwen/Qwen3-0.6B") == {"baseModel": "base_model_not_selected"}
    with pytest.raises(RunRefused) as info:
        submit(baseModel="Qwen/Qwen3-0.6B")
    assert "base-models select Qwen/Qwen3-0.6B" in info.value.hint


def test_work_may_name_a_model_that_is_still_being_prepared(ready):
    BaseModel.objects.update(phase="PENDING", revision="", folder="")
    assert submit().base_revision == ""


def test_a_model_that_could_not_be_prepared_is_refused_with_why(ready):
    BaseModel.objects.update(phase="UNSUPPORTED", failure_reason="It carries code.")
    (problem,) = check()["problems"]
    assert problem["code"] == "base_model_unusable"
    assert "It carries code." in problem["message"]


def test_an_archived_workload_or_namespace_takes_no_new_run(ready):
    Workload.objects.update(archived_at=timezone.now())
    Namespace.objects.filter(pk="triage").update(archived_at=timezone.now())
    with pytest.raises(RunRefused) as info:
        submit()
    assert [problem.code for problem in info.value.problems] == ["workload_archived", "namespace_archived"]
    assert info.value.code == "run_refused"


def test_five_mistakes_are_refused_once_with_five_paths(ready):
    with pytest.raises(RunRefused) as info:
        submit(config={"method": "sftt", "format": "x", "maxSeqLength": 9999,
                       "hyperparams": {"lora": {"dropout": 1}, "optimizer": {"weightDecay": -0.1}}})
    assert {problem.path for problem in info.value.problems} == {
        "config.method", "config.format", "config.maxSeqLength", "lora.dropout", "optimizer.weightDecay"}
    assert Run.objects.count() == 0


def test_a_run_is_refused_before_any_device_is_claimed(ready):
    with pytest.raises(RunRefused):
        submit(execution={"gpus": 2})
    assert Lease.objects.count() == 0


# Submissions ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R115")
def test_the_same_descriptor_twice_is_two_runs(ready):
    assert submit().pk != submit().pk


@pytest.mark.requirement("R044", "R045")
def test_a_stated_submission_reaches_the_run_it_first_started(ready):
    first = submit_run(run_document(submissionId="s1"), actor=LOCAL)
    again = submit_run(run_document(submissionId="s1"), actor=LOCAL)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.run.pk == again.run.pk
    assert submit(submissionId="s2").pk != first.run.pk


@pytest.mark.requirement("R044")
def test_a_resend_reaches_its_run_though_the_box_would_now_refuse_it(ready):
    first = submit(submissionId="s1")
    BaseModel.objects.update(phase="DESELECTED")
    assert submit(submissionId="s1").pk == first.pk


@pytest.mark.requirement("R044")
def test_the_same_submission_with_another_body_is_a_conflict(ready):
    first = submit(submissionId="s1")
    with pytest.raises(SubmissionConflict) as info:
        submit(submissionId="s1", description="another")
    assert (info.value.status, info.value.code, info.value.data["runId"]) == (409, "submission_conflict", first.pk)


@pytest.mark.django_db(transaction=True)
@pytest.mark.requirement("R044")
def test_a_submission_sent_many_times_at_once_is_one_run(ready):
    found, failures = [], []

    def send():
        try:
            found.append(submit_run(run_document(submissionId="s1"), actor=LOCAL))
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failures == []
    assert len({submission.run.pk for submission in found}) == Run.objects.count() == 1
    assert sum(submission.is_new for submission in found) == 1
    assert Event.objects.filter(type="run.submitted").count() == 1


@pytest.mark.requirement("R050")
def test_earlier_runs_of_a_recipe_are_listed_with_their_scores(ready, monkeypatch):
    earlier = submit(configName="first")
    submit(config={"maxSeqLength": 1024})
    model = make_dataset("triage/stand-in")
    Run.objects.filter(pk=earlier.pk).update(phase="COMPLETED", model=model)
    score = {"evaluationId": "e" * 64, "meanScore": 0.86}

    class Source:
        def best_scores_of_models(self, version_ids):
            return dict.fromkeys(version_ids, score)

    monkeypatch.setattr(scores, "_source", Source())
    (previous,) = check()["previousRuns"]
    assert (previous["runId"], previous["configName"], previous["score"]) == (earlier.pk, "first", score)


# The control steps ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R179", "R180")
def test_a_run_goes_through_its_dataset_and_base_model_to_the_queue(ready):
    run = submit()
    advance_run(run.pk)
    run.refresh_from_db()
    assert run.phase == "AWAITING_CAPACITY"
    assert run.queued_at is not None
    moved = [event.data["phase"] for event in queries.events_of(run)]
    assert moved == ["RESOLVING_DATASET", "AWAITING_BASE_MODEL", "AWAITING_CAPACITY"]
    advance_run(run.pk)
    assert queries.events_of(run).count() == 3


@pytest.mark.requirement("R179")
def test_a_run_waits_for_its_base_model_and_pins_what_preparing_found(ready):
    BaseModel.objects.update(phase="FETCHING", revision="", lease_token=1)
    run = submit()
    advance_run(run.pk)
    run.refresh_from_db()
    assert (run.phase, run.base_revision) == ("AWAITING_BASE_MODEL", "")
    BaseModel.objects.update(phase="READY", revision="rev-9", lease_token=None)
    advance_all()
    run.refresh_from_db()
    assert (run.phase, run.base_revision) == ("AWAITING_CAPACITY", "rev-9")
    assert run.references["baseModel"]["revision"] == "rev-9"


@pytest.mark.parametrize(("columns", "code"), [
    ({"phase": "DESELECTED"}, "base_model_deselected"), ({"phase": "UNAVAILABLE"}, "base_model_unusable"),
    ({"revision": "rev-2"}, "base_model_moved")])
def test_a_run_whose_base_model_is_gone_fails_with_why(ready, columns, code):
    run = submit()
    BaseModel.objects.update(**columns)
    advance_run(run.pk)
    run.refresh_from_db()
    assert (run.phase, run.failure_code) == ("FAILED", code)
    assert run.failure_reason.endswith(".") or "could not be prepared" in run.failure_reason
    assert run.failure_hint


def test_a_run_whose_rows_are_gone_fails_with_why(ready):
    from pathlib import Path

    from datasets.queries import dataset_files

    run = submit()
    path = Path(dataset_files(make_dataset())[0])
    kept = path.read_bytes()
    path.unlink()
    try:
        advance_run(run.pk)
    finally:
        path.write_bytes(kept)
    run.refresh_from_db()
    assert (run.phase, run.failure_code) == ("FAILED", "dataset_missing")


def test_one_run_s_fault_does_not_keep_the_others_from_their_step(ready, monkeypatch):
    from runs.operations import advance

    broken, sound = submit(), submit()
    real = advance.resolve_dataset

    def fail_for_one(run):
        if run.pk == broken.pk:
            raise RuntimeError("boom")
        real(run)

    monkeypatch.setitem(advance.STEPS, "RESOLVING_DATASET", fail_for_one)
    advance_all()
    assert set(Run.objects.values_list("pk", "phase")) == {(broken.pk, "RESOLVING_DATASET"),
                                                           (sound.pk, "AWAITING_CAPACITY")}


# Cancelling and annotating -------------------------------------------------------------------------------------------


@pytest.mark.requirement("R175")
@pytest.mark.parametrize("phase", ["RESOLVING_DATASET", "AWAITING_BASE_MODEL", "AWAITING_CAPACITY", "PAUSED"])
def test_a_run_that_holds_nothing_is_cancelled_at_once(ready, phase):
    run = cancel_run(set_phase(submit(), phase), actor=OPERATOR)
    assert (run.phase, run.failure_code) == ("CANCELLED", "")
    assert run.ended_at is not None
    types = [event.type for event in queries.events_of(run)]
    assert types[-3:] == ["run.cancel_requested", "run.cleaning_up", "run.cancelled"]


@pytest.mark.requirement("R175")
@pytest.mark.parametrize("phase", ["STARTING_JOB", "QUEUED", "PREPARING", "TRAINING"])
def test_a_run_with_a_job_is_asked_to_stop_and_asked_once(ready, phase):
    run = set_phase(submit(), phase, lease_token=1)
    cancel_run(run, actor=OPERATOR)
    cancel_run(run, actor=OPERATOR)
    assert run.phase == phase
    assert run.cancel_requested_at is not None
    assert queries.events_of(run).filter(type="run.cancel_requested").count() == 1


@pytest.mark.parametrize(("phase", "error", "code"), [
    ("COMPLETED", RunEnded, "run_ended"), ("FAILED", RunEnded, "run_ended"), ("CANCELLED", RunEnded, "run_ended"),
    ("RECORDING", TooLateToCancel, "too_late_to_cancel")])
def test_an_ended_run_is_not_cancelled(ready, phase, error, code):
    with pytest.raises(error) as info:
        cancel_run(set_phase(submit(), phase), actor=OPERATOR)
    assert info.value.code == code


def test_a_viewer_cancels_nothing(ready):
    with pytest.raises(Forbidden):
        cancel_run(submit(), actor=VIEWER)


@pytest.mark.requirement("R047", "R048")
def test_notes_are_set_kept_and_cleared_and_leave_the_identity_alone(ready):
    run = set_phase(submit(description="one", configName="r8"), "COMPLETED")
    before = run.config_hash
    annotate_run(run, actor=OPERATOR, description="two")
    assert (run.description, run.config_name, run.config_hash) == ("two", "r8", before)
    annotate_run(run, actor=OPERATOR, config_name="")
    assert (run.description, run.config_name) == ("two", "")
    with pytest.raises(Forbidden):
        annotate_run(run, actor=VIEWER, description="x")


# Reading -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R175", "R191")
def test_runs_are_listed_by_phase_and_workload(ready):
    done, waiting = set_phase(submit(), "COMPLETED"), submit()
    make_workload("other")
    other = submit(workload="other", config={"dataset": "triage/train"})
    assert [run.pk for run in queries.list_runs()] == [other.pk, waiting.pk, done.pk]
    assert {run.pk for run in queries.list_runs(phase="open")} == {other.pk, waiting.pk}
    assert [run.pk for run in queries.list_runs(phase="completed")] == [done.pk]
    assert [run.pk for run in queries.list_runs(workload="other")] == [other.pk]


def test_runs_of_an_archived_workload_are_left_out_unless_named(ready):
    run = submit()
    Workload.objects.update(archived_at=timezone.now())
    assert list(queries.list_runs()) == []
    assert [found.pk for found in queries.list_runs(workload="triage")] == [run.pk]
    assert [found.pk for found in queries.list_runs(archived=True)] == [run.pk]


def test_a_waiting_run_says_who_holds_the_device(ready):
    measured("triage/train")
    run = submit()
    advance_run(run.pk)
    run.refresh_from_db()
    assert outlook_of(run).wait_reason == "0 of 2 slots of cpu are held."
    Lease.objects.create(device=Device.objects.get(), slot=0, holder_kind="evaluation", holder_id="e" * 64, token=1,
                         expires_at=timezone.now())
    assert outlook_of(run).wait_reason == "1 of 2 slots of cpu are held by evaluation eeeeeeeeeeee."


def test_a_run_over_a_ready_base_is_not_said_to_wait_for_it(ready):
    run = submit()
    assert (run.phase, outlook_of(run).wait_reason) == ("RESOLVING_DATASET", "")
    set_phase(run, "AWAITING_BASE_MODEL")
    assert outlook_of(run).wait_reason == ""
    BaseModel.objects.update(phase="PENDING")
    assert outlook_of(run).wait_reason == "acme/tiny is being prepared."


@pytest.mark.parametrize("phase", ["AWAITING_CAPACITY", "AWAITING_BASE_MODEL", "TRAINING"])
def test_a_list_of_many_runs_asks_as_many_questions_as_one_of_few(ready, phase, client):
    asked = []
    for count in (1, 8):
        while Run.objects.count() < count:
            lease = {"lease_token": Run.objects.count() + 1} if phase == "TRAINING" else {}
            set_phase(submit(), phase, queued_at=timezone.now(), total_steps=10, **lease)
        with CaptureQueriesContext(connection) as found:
            body = client.get("/v1/training/runs", headers={"Authorization": f"Bearer {LOCAL_SECRET}"}).json()
        assert len(body["runs"]) == count
        asked.append(len(found))
    assert asked[0] == asked[1]


def test_a_run_claims_its_pool_in_the_capacity_page(ready):
    run = submit()
    advance_run(run.pk)
    (claim,) = queries.claims_of_runs("triage")
    assert (claim["workId"], claim["state"], claim["pool"], claim["kind"]) == (run.pk, "QUEUED", "cpu", "SFT")
    assert queries.claims_of_runs("nobody") == []


def test_make_run_needs_nothing_but_a_box():
    assert make_run().phase == "RESOLVING_DATASET"


@pytest.mark.requirement("R138")
def test_a_mask_column_that_no_row_has_is_refused_before_a_job_reads_the_rows(ready):
    found = check(config={"loss": {"explicitLossMaskColumn": "weights"}})
    assert [problem["code"] for problem in found["problems"]] == ["no_row_has_a_mask"]
