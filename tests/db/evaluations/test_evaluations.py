"""Evaluations: what is scored against what, how, and what is refused."""

import json
from pathlib import Path

import pytest

from evaluations import phases
from evaluations.work import EvaluationWork
from optimize_site.kernel.errors import OperationError
from registry.models import BaseModel
from tests.db.evaluations.evaluating import ANSWERS, EVAL, FINISHED, TEMPLATE, label, plan_is_complete, start
from tests.factories import (
    claim_job,
    end_job,
    make_adapter,
    make_base_model,
    make_dataset,
    make_workload,
    put_weights,
    tell_job,
)

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("R024")
def test_an_evaluation_takes_dataset_and_grader_from_the_models_workload(adapter):
    row = start()
    assert (row.workload.name, row.dataset.reference) == ("triage", "triage/eval:v1")
    assert row.phase == phases.AWAITING_CAPACITY
    assert (row.grader, row.num_rows, row.base_revision) == ("json-label-match", 4, "rev-1")


@pytest.mark.requirement("R024", "R342")
def test_answers_are_scored_as_they_come_and_the_report_keeps_unscored_apart(adapter):
    row = start()
    attempt = claim_job()
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, *ANSWERS[:2])
    row.refresh_from_db()
    assert (row.phase, row.num_answered, row.mean_score) == (phases.EVALUATING, 2, 0.75)
    tell_job(attempt, *ANSWERS[2:], FINISHED)
    end_job(attempt)
    row.refresh_from_db()
    assert row.phase == phases.COMPLETED
    assert (row.num_scored, row.num_unscored) == (3, 1)
    report = row.report
    assert report["meanScore"] == pytest.approx(0.5)
    assert report["exactMatchRate"] == pytest.approx(1 / 3)
    assert report["unscored"] == {"total": 1, "causes": {"expected_without_json": 1}}
    assert [(entry["field"], entry["matched"]) for entry in report["fields"]] == [("queue", 1), ("urgency", 2)]
    assert report["confusion"][0]["field"] == "queue"
    assert report["confusion"][0]["labels"] == ["billing", "cards"]
    assert report["confusion"][0]["counts"] == [[1, 0, 1], [1, 0, 0]]
    assert report["interval"][0] < 0.5 < report["interval"][1]
    first = row.predictions.get(position=0)
    assert (first.score, first.is_exact) == (1.0, True)
    assert (first.base_revision, first.chat_template_sha256) == ("rev-1", TEMPLATE)
    assert row.device_seconds > 0


@pytest.mark.requirement("R339")
def test_the_plan_gives_the_rows_as_they_stand_the_adapter_and_what_is_answered_already(adapter):
    row = start(max_new_tokens=40)
    attempt = claim_job()
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, ANSWERS[1])
    plan = EvaluationWork().plan(row, attempt)
    assert plan["entry"] == "evaluate"
    assert Path(plan["rows"]["files"][0]).read_bytes() == EVAL
    assert plan["skip_positions"] == [1]
    assert (plan["max_new_tokens"], plan["max_prompt_tokens"]) == (40, 4056)
    assert plan["base_model"]["revision"] == "rev-1" and plan["base_model"]["chat_template_sha256"] == TEMPLATE
    assert [system["name"] for system in plan["systems"]] == ["candidate"]
    assert plan_is_complete(plan, attempt)
    assert Path(plan["systems"][0]["adapter"], "adapter_model.safetensors").read_bytes() == b"weights"


def test_the_plan_of_a_base_model_has_no_adapter(workload):
    row = start(model="acme/tiny", workload="triage")
    assert EvaluationWork().plan(row, claim_job())["systems"] == [{"name": "base", "adapter": None}]


def test_a_base_model_needs_a_workload_and_a_trained_one_only_takes_its_own(workload, adapter):
    with pytest.raises(OperationError) as refused:
        start(model="acme/tiny")
    assert refused.value.code == "workload_required"
    make_workload("other")
    with pytest.raises(OperationError) as refused:
        start(workload="other")
    assert refused.value.code == "workload_mismatch"
    assert start(workload="triage").workload.name == "triage"


def test_a_workload_without_a_dataset_needs_one_named(base):
    make_adapter(make_workload(), base)
    with pytest.raises(OperationError) as refused:
        start()
    assert refused.value.code == "dataset_required"
    make_dataset("triage/eval", EVAL)
    assert start(dataset="eval").grader == "json-label-match"


@pytest.mark.requirement("R042")
def test_the_runs_own_grader_comes_before_the_workloads(workload, base):
    from runs.models import Run
    from tests.factories import make_run

    run = make_run()
    Run.objects.filter(pk=run.pk).update(grader="model:triage/judge")
    make_adapter(workload, base, run_id=run.pk)
    with pytest.raises(OperationError) as refused:
        start()
    assert refused.value.code == "unknown_reference" and "triage/judge" in refused.value.detail
    assert start(grader="json-label-match").grader == "json-label-match"


@pytest.mark.requirement("R341")
def test_rows_whose_answer_calls_tools_are_refused_by_line(adapter):
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    call = {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {}}}]}
    calling = json.dumps({"messages": [{"role": "user", "content": "x"}, call], "tools": tools}).encode() + b"\n"
    make_dataset("triage/calls", EVAL + calling)
    with pytest.raises(OperationError) as refused:
        start(dataset="calls")
    assert refused.value.code == "answer_calls_tools"
    assert "1 of the 5 rows" in refused.value.detail and "lines 5" in refused.value.detail
    answered = json.dumps({"messages": [{"role": "user", "content": "x"}, call, {
        "role": "tool", "tool_call_id": "c1", "name": "look", "content": "7"},
        {"role": "assistant", "content": label("cards")}], "tools": tools}).encode() + b"\n"
    make_dataset("triage/answered", answered)
    assert start(dataset="answered").num_rows == 1


@pytest.mark.requirement("R330")
def test_another_chat_template_than_the_trained_one_is_refused_naming_the_commit(workload, base):
    make_adapter(workload, base, chatTemplateSha256="o" * 64)
    with pytest.raises(OperationError) as refused:
        start()
    assert refused.value.code == "template_mismatch"
    assert "baseModelRevision to rev-1" in refused.value.hint
    assert refused.value.data == {"baseModelRevision": "rev-1"}


@pytest.mark.requirement("R210")
def test_a_serving_only_model_may_be_evaluated(workload):

    repository = "google/gemma-4-26B-A4B-it"
    put_weights(make_base_model(repository, folder="base-models/gemma", facts={"chatTemplateSha256": TEMPLATE}))
    assert BaseModel.objects.filter(repository=repository).exists()
    assert start(model=repository, workload="triage").base_model == repository
