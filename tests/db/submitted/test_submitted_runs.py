"""Runs once they are submitted: the control steps, cancelling, notes, reading."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from optimize_site.kernel.auth import LOCAL_SECRET
from optimize_site.kernel.errors import Forbidden
from optimize_site.kernel.models import Device, Lease
from registry.models import BaseModel, Workload
from runs import queries
from runs.errors import RunEnded, TooLateToCancel
from runs.models import Run
from runs.operations import advance_all, advance_run, annotate_run, cancel_run
from runs.outlook import outlook_of
from tests.db.submitted.submitting import OPERATOR, VIEWER, check, set_phase, submit
from tests.factories import make_dataset, make_run, make_workload, measured

pytestmark = pytest.mark.django_db


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
    assert run.failure_hint and run.failure_evidence["baseModel"] == run.base_model


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
    assert str(path) in run.failure_reason
    assert run.failure_evidence == {"dataset": run.references["dataset"]["reference"], "missing": [str(path)]}


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
