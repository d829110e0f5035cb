"""Evaluations by rules of several kinds, alone and together."""

import json

import pytest

from evaluations.operations.evaluations import advance_evaluations
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import OperationError
from tests.db.evaluations.evaluating import FINISHED, ROUTE, rows, said, start
from tests.factories import claim_job, end_job, make_dataset, tell_job

pytestmark = pytest.mark.django_db


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
