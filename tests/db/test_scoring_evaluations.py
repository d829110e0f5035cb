"""Evaluations whose grader is no rule: answered on a device, then scored where no device is needed, row by row."""

import json

import pytest
from django.test import Client

from evaluations import phases
from evaluations.errors import HostNotAllowed, NothingToRetry
from evaluations.management.commands.evaluations import Command
from evaluations.models import Evaluation
from evaluations.operations.evaluations import (
    Request,
    advance_evaluations,
    cancel_evaluation,
    retry_evaluation,
    start_evaluation,
)
from evaluations.render import evaluation_document, report_document
from gpu_worker.engines.plans import complete
from gpu_worker.kinds import KINDS
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.models import Device
from optimize_site.kernel.work import attempt_folder
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
TEMPLATE, GRADER = "t" * 64, "http:https://grader.example/score"
ROWS = b"".join(json.dumps({"messages": [{"role": "user", "content": f"question {number}"},
                                         {"role": "assistant", "content": str(number)}]}).encode() + b"\n"
                for number in range(4))
STARTED = {"type": "started", "pid": 1, "versions": {}}


@pytest.fixture
def box(monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_GRADERS_HTTP_HOSTS", "grader.example")
    make_device()
    make_device("host", kind=Device.HOST, profile="host")
    base = put_weights(make_base_model(facts={"contextLength": 4096, "chatTemplateSha256": TEMPLATE}))
    make_dataset("triage/eval", ROWS)
    make_adapter(make_workload(dataset="eval"), base, chatTemplateSha256=TEMPLATE)


def answer(position, text="an answer", finish="stop"):
    return {"type": "answer", "position": position, "system": "candidate", "expected": str(position), "answer": text,
            "prompt": [{"role": "user", "content": f"question {position}"}], "prompt_tokens": 10,
            "completion_tokens": 5, "chat_template_sha256": TEMPLATE, "base_model_revision": "rev-1", "finish": finish}


def call(name):
    return f'<tool_call>{{"name": "{name}", "arguments": {{"day": 1}}}}</tool_call>'


def scored(position, score, cause="", explanation=""):
    return {"type": "scored", "position": position, "score": score, "is_exact": score == 1.0, "fields": {},
            "cause": cause, "explanation": explanation}


def reread(row):
    return Evaluation.objects.get(pk=row.pk)


@pytest.fixture
def answered(box):
    """An evaluation whose four rows are answered, one of them not at all, and one cut."""
    row = start_evaluation(Request(model="triage/tiny", grader=GRADER), actor=LOCAL).evaluation
    run_job(answer(0), answer(1), answer(2, "cut", "length"), answer(3, None, "prompt_too_long"))
    return reread(row)


def items_of(attempt):
    """What the job is given to have scored."""
    plan = KINDS["evaluation"].plan(KINDS["evaluation"].get(attempt.holder_id), attempt)
    whole = complete(plan, attempt=attempt.pk, subject={"kind": "evaluation", "id": attempt.holder_id}, threads=1,
                     device={"kind": "cpu", "uuids": []})
    assert whole["entry"] == "score"
    return [json.loads(line) for line in open(whole["items"])], whole["scorer"]


def claim_scoring():
    attempt = claim_job("host")
    attempt_folder(attempt.pk).mkdir(parents=True)
    return attempt


def test_answers_wait_for_a_grader_that_is_no_rule_and_have_no_score_until_it_spoke(answered):
    assert (answered.phase, answered.num_answered, answered.num_scored, answered.num_unscored) == (
        phases.AWAITING_GRADER, 4, 0, 1)
    assert list(answered.predictions.unjudged().values_list("position", flat=True)) == [0, 1, 2]
    assert claim_job() is None


def test_it_is_scored_on_the_slot_that_needs_no_device_and_what_has_no_score_is_counted_by_its_cause(answered):
    attempt = claim_scoring()
    assert reread(answered).phase == phases.SCORING
    items, scorer = items_of(attempt)
    assert [item["row"] for item in items] == [0, 1, 2]
    assert items[0] == {"row": 0, "prompt": [{"role": "user", "content": "question 0"}], "tools": None,
                        "completion": "an answer", "calls": None, "expected": "0"}
    assert scorer["spec"]["terms"] == [{"name": "grader", "weight": 1.0, "kind": "grader", "grader": GRADER}]
    assert scorer["spec"]["limits"]["http"]["allowedHosts"] == ["grader.example"]
    spent = answered.device_seconds
    tell_job(attempt, STARTED, scored(0, 0.5, explanation="Half."), scored(1, None, "timeout", "Too slow."),
             scored(2, 0.25))
    end_job(attempt)
    row = reread(answered)
    assert (row.phase, row.mean_score, row.num_scored, row.num_unscored) == (phases.COMPLETED, 0.375, 2, 2)
    assert report_document(row)["unscored"] == {"total": 2, "causes": {"prompt_too_long": 1, "timeout": 1}}
    assert "cut at the token ceiling" in row.predictions.get(position=2).explanation
    assert row.device_seconds == spent


def test_a_job_that_is_lost_goes_on_with_the_rows_that_have_no_verdict(answered):
    attempt = claim_scoring()
    tell_job(attempt, STARTED, scored(0, 1.0))
    end_job(attempt, "lost")
    assert reread(answered).phase == phases.AWAITING_GRADER
    assert reread(answered).queued_at == answered.queued_at, "what was asked for later does not go before it"
    again = claim_scoring()
    assert [item["row"] for item in items_of(again)[0]] == [1, 2]
    tell_job(again, STARTED, scored(0, 0.0), scored(1, 1.0))
    end_job(again)
    row = reread(answered)
    assert (row.phase, row.failure_code, row.mean_score) == (phases.FAILED, "scores_missing", 1.0)


def test_a_retry_asks_the_grader_again_only_for_the_rows_it_gave_no_score(answered):
    run_job(scored(0, 1.0), scored(1, None, "connection", "Gone."), scored(2, None, "timeout"), device="host")
    row = retry_evaluation(reread(answered), actor=LOCAL)
    assert (row.phase, row.num_answered, row.num_scored, row.num_unscored) == (phases.AWAITING_GRADER, 4, 1, 1)
    attempt = claim_scoring()
    assert [item["row"] for item in items_of(attempt)[0]] == [1, 2]
    tell_job(attempt, STARTED, scored(1, 0.0), scored(2, 0.5))
    end_job(attempt)
    row = reread(row)
    assert (row.phase, row.mean_score, row.num_unscored) == (phases.COMPLETED, 0.5, 1)
    with pytest.raises(NothingToRetry):
        retry_evaluation(row, actor=LOCAL)


def test_a_grader_that_cannot_be_asked_fails_the_evaluation_with_its_reason_and_a_retry_keeps_the_answers(answered):
    failure = {"type": "failure", "code": "scorer_not_ready", "reason": "The host leads to 10.0.0.1.", "hint": "Allow.",
               "evidence": {}}
    run_job(failure, outcome="failed", device="host")
    row = reread(answered)
    assert (row.phase, row.failure_reason, row.failure_hint) == (phases.FAILED, "The host leads to 10.0.0.1.", "Allow.")
    assert retry_evaluation(row, actor=LOCAL).phase == phases.AWAITING_GRADER
    assert reread(row).num_answered == 4


def test_it_is_cancelled_while_it_waits_and_while_it_is_scored(answered):
    attempt = claim_scoring()
    cancel_evaluation(reread(answered), actor=LOCAL)
    kind = KINDS["evaluation"]
    assert kind.ask(kind.get(answered.pk)) == "stop"
    end_job(attempt, "stopped")
    assert reread(answered).phase == phases.CANCELLED
    row = retry_evaluation(reread(answered), actor=LOCAL)
    assert cancel_evaluation(row, actor=LOCAL).phase == phases.CANCELLED
    advance_evaluations()
    assert claim_job("host") is None


def test_the_tools_that_an_answer_calls_are_handed_over_beside_its_text(box):
    start_evaluation(Request(model="triage/tiny", grader=GRADER), actor=LOCAL)
    tools = [{"type": "function", "function": {"name": "weather"}}]
    run_job(answer(0, call("weather")) | {"tools": tools}, answer(1, call("rocket")) | {"tools": tools},
            answer(2, call("weather")), answer(3))
    items, _ = items_of(claim_scoring())
    assert [item["calls"] for item in items] == [[{"name": "weather", "arguments": {"day": 1}}], None, None, None]
    assert [item["tools"] for item in items] == [tools, tools, None, None]


def test_without_a_host_the_processors_score(box):
    Device.objects.filter(kind=Device.HOST).update(is_present=False)
    row = start_evaluation(Request(model="triage/tiny", grader=GRADER), actor=LOCAL).evaluation
    run_job(*(answer(position) for position in range(4)))
    run_job(*(scored(position, 1.0) for position in range(4)))
    assert (reread(row).phase, reread(row).mean_score) == (phases.COMPLETED, 1.0)


def test_a_service_has_one_text_and_only_a_host_that_the_operator_lists(box):
    row = start_evaluation(Request(model="triage/tiny", grader="http:HTTPS://Grader.Example:443/score"),
                           actor=LOCAL).evaluation
    assert evaluation_document(row)["grader"] == GRADER
    with pytest.raises(HostNotAllowed) as refused:
        start_evaluation(Request(model="triage/tiny", grader="http:http://127.0.0.1/"), actor=LOCAL)
    assert "127.0.0.1" in refused.value.detail and "grader.example" in refused.value.detail
    assert "http-hosts" in refused.value.hint


def test_every_surface_counts_what_has_no_score_by_its_cause_and_tells_how_far_it_is(answered, capsys):
    attempt = claim_scoring()
    tell_job(attempt, STARTED, scored(0, 0.5), scored(1, None, "timeout", "Too <b>slow</b>."))
    viewer = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    address = f"/v1/training/evaluations/{answered.pk}"
    found = viewer.get(address).json()
    assert (found["phase"], found["scored"], found["unscored"]) == ("SCORING", 1, 2)
    assert found["unscoredCauses"] == {"prompt_too_long": 1, "timeout": 1}
    causes = [row["unscoredCause"] for row in viewer.get(f"{address}/predictions").json()["predictions"]]
    assert causes == [None, "timeout", None, "prompt_too_long"]
    assert Command().run(["get", answered.pk]) == 0
    assert "2 (prompt_too_long 1, timeout 1)" in capsys.readouterr().out
    assert Command().run(["predictions", answered.pk]) == 0
    assert "not judged yet" in capsys.readouterr().out
    tell_job(attempt, scored(2, 1.0))
    end_job(attempt)
    assert Command().run(["report", answered.pk]) == 0
    said = capsys.readouterr().out
    assert "Unscored: timeout" in said and "2 of 4" in said
    assert retry_evaluation(reread(answered), actor=LOCAL).num_unscored == 1
