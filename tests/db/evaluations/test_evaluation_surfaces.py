"""Evaluations over HTTP and by command, who may what, and submissions that reach the same one."""

import json

import pytest

from evaluations.models import Evaluation
from evaluations.operations.evaluations import (
    Request,
    annotate_evaluation,
    cancel_evaluation,
    retry_evaluation,
    start_evaluation,
)
from optimize_site.kernel.auth import LOCAL, Actor
from optimize_site.kernel.box import capacity
from optimize_site.kernel.errors import Conflict, Forbidden, InvalidInput
from tests.db.evaluations.evaluating import ANSWERS, FINISHED, ROUTE, TEMPLATE, start
from tests.factories import claim_job, run_job

pytestmark = pytest.mark.django_db


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
