"""Evaluations: what is refused, answers graded as they come, lost jobs, retries, reports, on all surfaces."""

import json
from pathlib import Path

import pytest
from django.test import Client

from evaluations import phases
from evaluations.models import Evaluation
from evaluations.operations.evaluations import (
    Request,
    advance_evaluations,
    annotate_evaluation,
    cancel_evaluation,
    retry_evaluation,
    start_evaluation,
)
from evaluations.work import EvaluationWork
from gpu_worker.engines.plans import complete
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.box import capacity
from optimize_site.kernel.errors import Conflict, Forbidden, InvalidInput, OperationError
from optimize_site.kernel.models import Device
from registry.models import BaseModel
from registry.operations.base_models import deselect_base_model
from tests.factories import (
    claim_job,
    end_job,
    make_adapter,
    make_base_model,
    make_dataset,
    make_device,
    make_workload,
    put_weights,
    run_job,
    tell_job,
)

pytestmark = pytest.mark.django_db
ROUTE, TEMPLATE = "/v1/training/evaluations", "t" * 64


def rows(*answers, tools=None):
    return b"".join(json.dumps({"messages": [{"role": "user", "content": f"ticket {number}"},
                                             {"role": "assistant", "content": answer}],
                                **({"tools": tools} if tools else {})}).encode() + b"\n"
                    for number, answer in enumerate(answers))


def label(queue, urgency="low"):
    return json.dumps({"queue": queue, "urgency": urgency})


EVAL = rows(label("billing"), label("cards"), label("billing", "high"), "no labels here")


@pytest.fixture
def base():
    make_device()
    return put_weights(make_base_model(facts={"contextLength": 4096, "chatTemplateSha256": TEMPLATE}))


@pytest.fixture
def workload(base):
    make_dataset("triage/eval", EVAL)
    return make_workload(dataset="eval")


@pytest.fixture
def adapter(workload, base):
    return make_adapter(workload, base, chatTemplateSha256=TEMPLATE)


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def start(**stated):
    return start_evaluation(Request(**({"model": "triage/tiny"} | stated)), actor=LOCAL).evaluation


def plan_is_complete(plan, attempt):
    """Whether the job would take the plan."""
    return complete(plan, attempt=attempt.pk, subject={"kind": attempt.holder_kind, "id": attempt.holder_id}, threads=1,
                    device={"kind": "cpu", "uuids": []})


def said(position, answer, expected=None, **changes):
    expected = expected or json.loads(EVAL.splitlines()[position])["messages"][-1]["content"]
    return {"type": "answer", "position": position, "system": "candidate", "expected": expected, "answer": answer,
            "prompt": [{"role": "user", "content": f"ticket {position}"}], "prompt_tokens": 10, "completion_tokens": 5,
            "chat_template_sha256": TEMPLATE, "base_model_revision": "rev-1", "finish": "stop"} | changes


ANSWERS = [said(0, label("billing")), said(1, label("billing")), said(2, "none"), said(3, label("cards"))]
FINISHED = {"type": "finished", "answers": 4}


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
    from registry.models import BaseModel

    repository = "google/gemma-4-26B-A4B-it"
    put_weights(make_base_model(repository, folder="base-models/gemma", facts={"chatTemplateSha256": TEMPLATE}))
    assert BaseModel.objects.filter(repository=repository).exists()
    assert start(model=repository, workload="triage").base_model == repository


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


@pytest.fixture
def later(workload):
    """A base model that somebody selected and that is prepared for the first time."""
    return make_base_model("acme/later", phase="FETCHING", lease_token=1)


def prepare(base_model):
    """What the end of a preparation does."""
    from registry.work import BaseModelWork

    base_model.refresh_from_db()
    BaseModel.objects.filter(pk=base_model.pk).update(revision="rev-9", folder="base-models/later",
                                                      facts={"contextLength": 4096, "chatTemplateSha256": TEMPLATE})
    base_model.refresh_from_db()
    BaseModelWork()._is_ready(base_model)


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


@pytest.mark.requirement("R192")
def test_a_lost_job_goes_on_where_it_was(adapter):
    row = start()
    run_job(*ANSWERS[:2], outcome="lost")
    row.refresh_from_db()
    assert (row.phase, row.num_answered) == (phases.AWAITING_CAPACITY, 2)
    attempt = claim_job()
    assert EvaluationWork().plan(row, attempt)["skip_positions"] == [0, 1]
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, ANSWERS[1], *ANSWERS[2:], FINISHED)
    end_job(attempt)
    row.refresh_from_db()
    assert (row.phase, row.num_answered, row.report["rows"]) == (phases.COMPLETED, 4, 4)


def test_a_job_that_keeps_dying_fails_the_evaluation(adapter, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_MAX_ATTEMPTS", "2")
    row = start()
    run_job(outcome="lost")
    run_job(outcome="lost")
    row.refresh_from_db()
    assert (row.phase, row.failure_code) == (phases.FAILED, "job_lost")


def test_a_failure_says_why_and_what_to_change(adapter):
    row = start()
    run_job(ANSWERS[0], {"type": "failure", "code": "out_of_host_memory", "reason": "No memory.", "hint": "Add some.",
                         "evidence": {}}, outcome="failed")
    row.refresh_from_db()
    assert (row.phase, row.failure_code, row.failure_reason, row.failure_hint) == (
        phases.FAILED, "out_of_host_memory", "No memory.", "Add some.")
    assert row.ended_at is not None


def test_a_job_that_ends_without_all_answers_is_no_success(adapter):
    row = start()
    run_job(*ANSWERS[:3], FINISHED)
    row.refresh_from_db()
    assert (row.phase, row.failure_code) == (phases.FAILED, "answers_missing")


def test_a_row_that_could_not_be_asked_is_unscored(adapter):
    row = start()
    run_job(*ANSWERS[:3], said(3, None, finish="prompt_too_long"), FINISHED)
    row.refresh_from_db()
    assert row.report["unscored"]["causes"] == {"prompt_too_long": 1}


def test_an_answer_cut_at_the_ceiling_says_so(adapter):
    row = start()
    run_job(said(0, '{"queue": "bil', finish="length"), *ANSWERS[1:], FINISHED)
    assert "token ceiling" in row.predictions.get(position=0).explanation


@pytest.mark.requirement("R342")
def test_a_retry_answers_what_is_missing(adapter):
    row = start()
    run_job(*ANSWERS[:3], {"type": "failure", "code": "unexpected", "reason": "x", "hint": "", "evidence": {}},
            outcome="failed")
    row = retry_evaluation(row, actor=LOCAL)
    assert (row.phase, row.num_answered, row.failure_code, row.ended_at) == (phases.AWAITING_CAPACITY, 3, "", None)
    attempt = claim_job()
    assert EvaluationWork().plan(row, attempt)["skip_positions"] == [0, 1, 2]
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, ANSWERS[3], FINISHED)
    end_job(attempt)
    row.refresh_from_db()
    assert row.phase == phases.COMPLETED


@pytest.mark.requirement("R342")
def test_a_retry_keeps_only_answers_of_the_commit_it_resolves_to(adapter):
    row = start()
    run_job(*ANSWERS, FINISHED)
    with pytest.raises(Conflict) as refused:
        retry_evaluation(row, actor=LOCAL)
    assert refused.value.code == "nothing_to_retry"
    BaseModel.objects.update(revision="rev-2")
    row = retry_evaluation(row, actor=LOCAL)
    assert (row.phase, row.num_answered, row.base_revision, row.report) == (phases.AWAITING_CAPACITY, 0, "rev-2", None)


def test_a_retry_waits_for_the_end(adapter):
    with pytest.raises(Conflict):
        retry_evaluation(start(), actor=LOCAL)


def test_cancelling_before_and_during_the_job(adapter):
    waiting, running = start(), start()
    Evaluation.objects.filter(pk=running.pk).update(queued_at="2020-01-01T00:00:00Z")
    attempt = claim_job()
    assert attempt.holder_id == running.pk
    assert cancel_evaluation(waiting, actor=LOCAL).phase == phases.CANCELLED
    assert cancel_evaluation(waiting, actor=LOCAL).phase == phases.CANCELLED
    asked = cancel_evaluation(running, actor=LOCAL)
    assert asked.phase == phases.STARTING_JOB and EvaluationWork().ask(asked) == "stop"
    assert cancel_evaluation(running, actor=LOCAL).phase == phases.STARTING_JOB
    end_job(attempt, "stopped")
    running.refresh_from_db()
    assert (running.phase, running.lease_token) == (phases.CANCELLED, None)


def test_a_job_that_finished_before_it_saw_the_cancel_completes(adapter):
    row = start()
    attempt = claim_job()
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, *ANSWERS, FINISHED)
    cancel_evaluation(row, actor=LOCAL)
    end_job(attempt)
    row.refresh_from_db()
    assert row.phase == phases.COMPLETED
    with pytest.raises(Conflict):
        cancel_evaluation(row, actor=LOCAL)


def test_the_same_submission_reaches_the_first_evaluation_and_another_body_is_a_conflict(adapter):
    first = start(submission_id="s-1")
    assert start(submission_id="s-1").pk == first.pk
    assert start(submission_id="s-1", description="a note is no difference").pk == first.pk
    again = start_evaluation(Request("triage/tiny", submission_id="s-1"), actor=LOCAL)
    assert (again.evaluation.pk, again.is_new) == (first.pk, False)
    with pytest.raises(Conflict) as refused:
        start(submission_id="s-1", max_new_tokens=7)
    assert refused.value.code == "submission_conflict"
    assert Evaluation.objects.count() == 1


def test_limits_and_roles(adapter):
    with pytest.raises(InvalidInput):
        start(max_new_tokens=-1)
    row, viewer = start(), Actor("vic", "viewer")
    for ask in (lambda: start_evaluation(Request("triage/tiny"), actor=viewer),
                lambda: cancel_evaluation(row, actor=viewer), lambda: retry_evaluation(row, actor=viewer),
                lambda: annotate_evaluation(row, description="x", actor=viewer)):
        with pytest.raises(Forbidden):
            ask()


def test_capacity_shows_its_claim(adapter):
    row = start()
    claim = capacity("triage")["claims"][0]
    assert (claim["kind"], claim["workId"], claim["state"]) == ("EVALUATION", row.pk, "QUEUED")
    claim_job()
    assert capacity()["claims"][0]["state"] == "GRANTED"
    assert capacity("other")["claims"] == []


@pytest.mark.requirement("R190")
def test_the_routes_from_start_to_predictions(client, adapter):
    def post(path="", **body):
        return client.post(ROUTE + path, json.dumps(body), content_type="application/json")

    answer = post(model="triage/tiny", project="triage", maxCompletionTokens=40, description="first")
    assert answer.status_code == 201
    pk = answer.json()["evaluationId"]
    assert answer.json()["settings"] == {"maxNewTokens": 40, "temperature": 0.0}
    assert client.get(f"{ROUTE}/{pk}/report").json()["code"] == "report_not_ready"
    run_job(*ANSWERS, FINISHED)
    found = client.get(f"{ROUTE}/{pk[:9]}").json()
    assert (found["phase"], found["report"]["meanScore"], found["answered"], found["rows"]) == ("COMPLETED", 0.5, 4, 4)
    report = client.get(f"{ROUTE}/{pk}/report").json()
    assert list(report["perFieldAccuracy"]) == ["queue", "urgency"]
    predictions = client.get(f"{ROUTE}/{pk}/predictions").json()["predictions"]
    assert [row["score"] for row in predictions] == [1.0, 0.5, 0.0, None]
    assert predictions[0]["baseModelRevision"] == "rev-1" and predictions[0]["chatTemplateSha256"] == TEMPLATE
    wrong = client.get(f"{ROUTE}/{pk}/predictions?wrongFirst=true&limit=2").json()["predictions"]
    assert [row["position"] for row in wrong] == [3, 2]
    assert client.get(f"{ROUTE}?phase=open").json()["total"] == 0
    assert client.get(f"{ROUTE}?phase=completed&model=triage/tiny&workload=triage").json()["total"] == 1
    assert client.get(f"{ROUTE}?phase=sleeping").json()["code"] == "unknown_phase"
    events = client.get(f"{ROUTE}/{pk}/events?follow=false").json()
    assert events["status"]["phase"] == "COMPLETED"
    assert [event["type"] for event in events["events"]][-1] == "evaluation.completed"
    assert post(model="triage/tiny", workload="a", project="b").json()["code"] == "workload_stated_twice"
    sent = [post(model="triage/tiny", submissionId="once") for _ in range(2)]
    assert [reply.status_code for reply in sent] == [201, 200]
    assert sent[0].json()["evaluationId"] == sent[1].json()["evaluationId"]
    assert post(f"/{pk}/annotate", description="why").json()["description"] == "why"
    assert post(f"/{pk}/cancel").status_code == 409
    assert client.get(f"{ROUTE}/ffffffffffff").status_code == 404


def test_the_command_from_start_to_predictions(adapter, capsys):
    from evaluations.management.commands.evaluations import Command

    run = Command().run
    assert run(["start", "--model", "triage/tiny", "--exit-status"]) == 2
    assert run(["start", "--model", "triage/tiny", "-o", "json"]) == 0
    pk = json.loads(capsys.readouterr().out.partition("\n}\n")[0] + "}")["evaluationId"]
    run_job(*ANSWERS, FINISHED)
    assert run(["wait", pk, "--exit-status"]) == 0
    assert "0.5000 [" in capsys.readouterr().out
    assert run(["report", pk]) == 0
    shown = capsys.readouterr().out
    assert "Unscored: expected_without_json 1" in shown
    assert shown.index("queue") < shown.index("urgency")
    assert run(["predictions", pk, "-o", "json", "--limit", "3"]) == 0
    assert [row["score"] for row in json.loads(capsys.readouterr().out)] == [1.0, 0.5, 0.0]
    assert run(["predictions", pk]) == 0
    assert run(["list", "--jq", ".evaluations[0].meanScore"]) == 0
    assert run(["get", pk]) == 0
    assert run(["annotate", pk, "--description", "good"]) == 0
    assert run(["retry", pk]) == 3
    failed = start()
    run_job({"type": "failure", "code": "unexpected", "reason": "Broken.", "hint": "", "evidence": {}},
            outcome="failed")
    assert run(["wait", failed.pk]) == 0
    assert run(["wait", failed.pk, "--exit-status"]) == 5
    cancelled = start()
    assert run(["cancel", cancelled.pk]) == 2
    assert run(["cancel", cancelled.pk, "--force"]) == 0
    assert run(["get", cancelled.pk, "--follow", "--exit-status"]) == 6


@pytest.mark.django_db(transaction=True)
def test_one_submission_sent_many_times_at_once_is_one_evaluation(adapter):
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    def send(_):
        try:
            return start(submission_id="s-1").pk
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(send, range(24)))
    assert len(found) == 1
    assert Evaluation.objects.count() == 1


EXACT = rows("billing", "cards", "cards", " ")


def by(grader, *answers):
    """A completed evaluation by a grader of labels that stand alone."""
    make_dataset("triage/labels", EXACT)
    row = start(dataset="labels", grader=grader)
    expected = [json.loads(line)["messages"][-1]["content"] for line in EXACT.splitlines()]
    attempt = claim_job()
    tell_job(attempt, *(said(place, answer, expected[place]) for place, answer in enumerate(answers)), FINISHED)
    end_job(attempt)
    advance_evaluations()
    row.refresh_from_db()
    return row


@pytest.mark.requirement("R021")
def test_an_evaluation_by_a_rule_without_fields_tells_of_whole_rows(adapter, client, admin_client):
    row = by(' exact:{"ignoreCase": true} ', "Billing", "billing", "cards", "other")
    assert (row.phase, row.grader) == ("COMPLETED", 'exact:{"ignoreCase":true}')
    assert (row.mean_score, row.num_scored, row.num_unscored) == (pytest.approx(2 / 3), 3, 1)
    report = client.get(f"{ROUTE}/{row.pk}/report").json()
    assert report["verdicts"] == {"right": 2, "partly": 0, "wrong": 1, "unscored": 1}
    assert report["unscored"]["causes"] == {"expected_empty": 1} and report["fields"] == []
    assert report["confusion"][0]["counts"] == [[1, 0], [1, 1]]
    shown = admin_client.get(f"/evaluations/{row.pk}").content.decode()
    assert "How the rows fared" in shown and "Right in full" in shown and "Accuracy of each" not in shown
    assert "?reference=exact%3A" in shown and "What it answered for what" in shown
    answers = client.get(f"{ROUTE}/{row.pk}/predictions").json()["predictions"]
    assert "from character 1 on" in answers[1]["explanation"] and answers[3]["score"] is None


def test_several_rules_together_tell_of_each(adapter, admin_client):
    terms = [{"grader": 'regex:{"pattern":"^[a-z]+$"}', "name": "one word"}, {"grader": "contains", "weight": 3}]
    row = by(f"weighted:{json.dumps({'terms': terms})}", "It is billing", "cards", "other", "x")
    assert row.mean_score == pytest.approx((0.75 + 1 + 0.25) / 3)
    shown = admin_client.get(f"/evaluations/{row.pk}").content.decode()
    assert "Accuracy of each term" in shown and "Every term right" in shown
    found = {entry["field"]: entry["matched"] for entry in row.report["fields"]}
    assert found == {"one word": 2, "contains": 2} and row.report["confusion"] == []


@pytest.mark.requirement("R042")
def test_a_grader_is_the_same_however_a_run_or_a_workload_writes_it(workload, base):
    from registry.operations.workloads import set_evaluation
    from tests.factories import make_run

    run = make_run(grader=' numeric: {"relative": 0.10} ')
    assert run.grader == 'numeric:{"relative":0.1}'
    changed = set_evaluation(workload, dataset="eval", grader="numeric:{}", actor=LOCAL)
    assert changed.grader == "numeric"
    with pytest.raises(OperationError) as refused:
        set_evaluation(workload, dataset="eval", grader='numeric:{"relative":-1}', actor=LOCAL)
    assert "relative of the grader numeric is -1" in refused.value.detail


def test_a_long_grader_is_kept_whole(adapter):
    schema = {"type": "object", "properties": {f"field_{number}": {"type": "string"} for number in range(45)}}
    row = start(grader=f"json-schema:{json.dumps({'schema': schema})}")
    row.refresh_from_db()
    assert len(row.grader) > 1000 and json.loads(row.grader.partition(":")[2])["schema"] == schema
