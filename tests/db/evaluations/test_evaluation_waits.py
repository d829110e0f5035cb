"""Evaluations that wait for a base model or a device."""

import json

import pytest

from evaluations import phases
from evaluations.models import Evaluation
from evaluations.operations.evaluations import advance_evaluations, retry_evaluation
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.models import Device
from registry.models import BaseModel
from registry.operations.base_models import deselect_base_model
from tests.db.evaluations.evaluating import ANSWERS, FINISHED, ROUTE, prepare, start
from tests.factories import claim_job, run_job

pytestmark = pytest.mark.django_db


def test_a_base_model_that_is_not_selected_is_refused_with_the_command(adapter):
    deselect_base_model("acme/tiny", actor=LOCAL)
    with pytest.raises(OperationError) as refused:
        start()
    assert refused.value.code == "base_model_not_selected"
    assert "base-models select acme/tiny" in refused.value.hint


def test_it_waits_for_a_base_model_that_is_being_prepared_and_fails_with_it(adapter):
    BaseModel.objects.update(phase="FETCHING", lease_token=1)
    row, other = start(), start()
    assert (row.phase, claim_job()) == (phases.AWAITING_BASE_MODEL, None)
    BaseModel.objects.update(phase="READY", lease_token=None)
    Evaluation.objects.filter(pk=other.pk).update(base_model="gone/model")
    advance_evaluations()
    row.refresh_from_db()
    other.refresh_from_db()
    assert row.phase == phases.AWAITING_CAPACITY
    assert (other.phase, other.failure_code) == (phases.FAILED, "base_model_missing")


def test_an_evaluation_of_a_base_model_waits_for_its_first_preparation_and_then_runs(later):
    row = start(model="acme/later", workload="triage")
    assert (row.phase, row.model, row.model_name) == (phases.AWAITING_BASE_MODEL, None, "acme/later")
    assert row.wait_reason == "acme/later is being prepared."
    advance_evaluations()
    assert claim_job() is None
    prepare(later)
    advance_evaluations()
    row.refresh_from_db()
    assert (row.phase, row.base_revision, row.model_name) == (phases.AWAITING_CAPACITY, "rev-9", "acme/later:v1")
    run_job(*[answer | {"system": "base"} for answer in ANSWERS], FINISHED)
    row.refresh_from_db()
    assert (row.phase, row.mean_score) == (phases.COMPLETED, 0.5)


def test_one_whose_base_model_is_prepared_again_is_of_the_version_that_comes(later):
    prepare(later)
    BaseModel.objects.filter(pk=later.pk).update(phase="PENDING")
    row = start(model="acme/later", workload="triage")
    assert row.model is None
    assert start(model="acme/later:v1", workload="triage").model_name == "acme/later:v1"


def test_every_surface_shows_cancels_and_retries_one_that_waits_for_its_base_model(later, client, capsys):
    from evaluations.management.commands.evaluations import Command

    answer = client.post(ROUTE, json.dumps({"model": "acme/later", "workload": "triage"}),
                         content_type="application/json")
    assert (answer.status_code, answer.json()["phase"]) == (201, "AWAITING_BASE_MODEL")
    assert (answer.json()["model"], answer.json()["modelId"]) == ("acme/later", None)
    assert answer.json()["waitReason"] == "acme/later is being prepared."
    pk = answer.json()["evaluationId"]
    assert client.get(ROUTE).json()["evaluations"][0]["model"] == "acme/later"
    for words in (["list"], ["get", pk], ["cancel", pk, "--force"]):
        assert Command().run(words) == 0
        assert "acme/later" in capsys.readouterr().out
    retried = client.post(f"{ROUTE}/{pk}/retry")
    assert (retried.status_code, retried.json()["phase"]) == (202, "AWAITING_BASE_MODEL")


def test_one_that_waits_fails_where_its_base_model_is_refused_or_deselected(later):
    refused = start(model="acme/later", workload="triage")
    BaseModel.objects.filter(pk=later.pk).update(phase="UNSUPPORTED", lease_token=None,
                                                 failure_reason="It carries code.")
    advance_evaluations()
    refused.refresh_from_db()
    assert (refused.phase, refused.failure_reason) == (phases.FAILED, "It carries code.")
    with pytest.raises(OperationError) as again:
        retry_evaluation(refused, actor=LOCAL)
    assert again.value.code == "base_model_not_selected"


@pytest.mark.parametrize(("model", "code"), [("Qwen/Qwen3-0.6B", "base_model_not_selected"),
                                             ("nobody/knows", "unknown_reference")])
def test_a_base_model_that_nobody_selected_or_knows_is_refused(workload, model, code):
    with pytest.raises(OperationError) as refused:
        start(model=model, workload="triage")
    assert refused.value.code == code


def test_a_queued_one_waits_again_where_the_weights_are_gone_and_fails_where_they_were_deselected(adapter):
    row = start()
    BaseModel.objects.update(phase="PENDING")
    advance_evaluations()
    row.refresh_from_db()
    assert (row.phase, row.wait_reason) == (phases.AWAITING_BASE_MODEL, "acme/tiny is being prepared.")
    BaseModel.objects.update(phase="READY")
    advance_evaluations()
    deselect_base_model("acme/tiny", actor=LOCAL)
    advance_evaluations()
    row.refresh_from_db()
    assert (row.phase, row.failure_code) == (phases.FAILED, "base_model_missing")


@pytest.mark.requirement("R209")
def test_a_queued_one_fails_with_the_reason_once_the_box_has_no_device_left(adapter):
    row = start()
    Device.objects.update(is_present=False)
    advance_evaluations()
    row.refresh_from_db()
    assert (row.phase, row.failure_code) == (phases.FAILED, "devices_gone")
    assert row.failure_reason == "The evaluation waits for a device, and this box now has none."
