"""A judge tried on a few answers before anything is spent."""

import json

import pytest
from django.test import Client

from gpu_worker.engines.plans import complete
from optimize_site.kernel.auth import LOCAL_SECRET
from registry.models import BaseModel
from tests.factories import make_adapter, make_base_model, make_dataset, make_device, make_workload, put_weights

pytestmark = pytest.mark.django_db
ROW = {"messages": [{"role": "system", "content": "You judge."}, {"role": "user", "content": "x"},
                    {"role": "assistant", "content": "{}"}]}


@pytest.fixture
def judge():
    make_device()
    dataset = make_dataset("judges/train", json.dumps(ROW).encode() + b"\n")
    return make_adapter(make_workload("judges"), put_weights(make_base_model()), dataset=dataset.reference)


@pytest.fixture
def asked(monkeypatch):
    """The plans of jobs that were waited for; each answers as a judge would."""
    plans = []

    def run(plan, *, kind, **_):
        assert complete(plan, attempt="a", subject={"kind": kind, "id": "a"}, threads=1, device={"kind": "cpu"})
        plans.append(plan)
        answers = [{"index": index, "answer": '{"score": 0.5, "reason": "Half."}', "finish": "stop", "promptTokens": 9,
                    "completionTokens": 5} for index in reversed(range(len(plan["asked"])))]
        answers[0] = {"index": answers[0]["index"], "cause": "prompt_too_long", "detail": "9000 tokens."}
        return {"report": {"answers": answers}}

    monkeypatch.setattr("evaluations.judge_trial.run_short_job", run)
    return plans


def post(route, **body):
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"}).post(
        f"/v1/training/graders/{route}", json.dumps(body), "application/json")


def test_a_judge_is_validated_with_what_it_would_be_told(judge):
    found = post("validate", grader="model:judges/tiny").json()
    assert found["grader"] == "model:judges/tiny:v1"
    assert found["parameters"] == {"model": "judges/tiny:v1", "instructions": "You judge.",
                                   "instructionsSource": "training"}
    assert post("validate", grader="exact", graderInstructions="x").json()["code"] == "grader_instructions_do_not_apply"
    assert post("validate", grader="model:judges/none").json()["code"] == "unknown_reference"


def test_a_judge_is_tried_on_answers_and_never_shown_what_was_expected(judge, asked):
    rows = [{"answer": "billing", "expected": "the secret", "prompt": [{"role": "user", "content": "Twice!"}]},
            {"answer": "cards"}]
    found = post("run", grader="model:judges/tiny", graderInstructions="Be kind.", rows=rows).json()
    assert [(verdict["score"], verdict["unscoredCause"]) for verdict in found["verdicts"]] == [
        (0.5, None), (None, "prompt_too_long")]
    (plan,) = asked
    assert plan["adapter"] is not None
    assert plan["asked"][0]["messages"][0]["content"] == "Be kind."
    assert "the secret" not in json.dumps(plan)


def test_a_judge_whose_base_model_is_not_ready_cannot_be_tried(judge):
    BaseModel.objects.update(phase="PENDING")
    refused = post("run", grader="model:judges/tiny", rows=[{"answer": "x"}]).json()
    assert refused["code"] == "grader_not_ready"
