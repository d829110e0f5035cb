"""Answers that people marked, and how far each grader agrees with them."""

import json

import pytest
from django.test import Client

from evaluations.agreement_queries import agreement_by_judge, agreement_of, agreement_of_model, labels_of
from evaluations.errors import MalformedMark
from evaluations.management.commands import evaluations, graders
from evaluations.models import Evaluation, Mark, Prediction
from evaluations.operations.marks import Wish, mark_answers, read_mark
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.errors import Forbidden
from tests.factories import make_dataset, make_workload

pytestmark = pytest.mark.django_db
ANNA = Actor("anna", "operator")


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def judged():
    """Makes a completed evaluation of the same rows by a grader, from its scores and the answers."""
    workload, dataset = make_workload(), make_dataset("triage/eval", 6)

    def judged(*scores, grader="model:judges/tiny:v1", told="Grade.", answers=None):
        row = Evaluation.objects.create(workload=workload, dataset=dataset, content_hash=dataset.content_hash,
                                        grader=grader, grader_instructions=told, phase="FAILED", base_model="acme/tiny",
                                        created_by="local", num_rows=6)
        for position, score in enumerate(scores):
            Prediction.objects.create(evaluation=row, position=position, prompt={}, expected="e", score=score,
                                      answer=(answers or {}).get(position, f"answer {position}"),
                                      unscored_cause="" if score is not None else "no_verdict")
        return row

    return judged


def mark(row, *scores, actor=LOCAL):
    mark_answers(row, [Wish(position, score) for position, score in enumerate(scores)], actor=actor)


def test_a_mark_is_right_wrong_a_score_or_taken_back():
    assert [read_mark(text) for text in ("right", " Wrong", "0.25", "clear")] == [1.0, 0.0, 0.25, None]
    for text in ("good", "1.5", "-0.1", "nan", ""):
        with pytest.raises(MalformedMark):
            read_mark(text)


def test_marks_show_how_far_the_judge_agrees(judged):
    row = judged(0.9, 0.8, 0.1, 0.7, None)
    mark(row, 1, 1, 0, 0, 1)
    found = agreement_of(row)
    assert (found["marked"], found["compared"], found["unscored"]) == (5, 4, 1)
    assert found["agreement"] == 0.75
    assert found["kappa"] == pytest.approx(0.5)
    assert found["counts"]["rightToGraderOnly"] == 1


def test_each_person_has_one_mark_on_an_answer_and_the_mean_of_all_counts(judged):
    row = judged(0.9)
    mark(row, 0)
    mark(row, 1)
    mark(row, 0.2, actor=ANNA)
    assert Mark.objects.count() == 2
    assert labels_of(row.predictions.all(), by="anna") == {0: {"label": 0.6, "own": 0.2}}
    mark(row, None, actor=ANNA)
    assert labels_of(row.predictions.all(), by="anna") == {0: {"label": 1.0, "own": None}}


def test_a_mark_holds_for_the_same_answer_whichever_judge_scored_it(judged):
    one = judged(0.9, 0.1)
    other = judged(0.2, 0.8, answers={1: "another answer"}, told="Be strict.")
    rule = judged(1.0, 0.0, grader="exact", told="")
    mark(one, 1, 0)
    assert [(judge["grader"], judge["graderInstructions"], judge["compared"], judge["agreement"])
            for judge in agreement_of(one)["others"]] == [
        ("exact", None, 2, 1.0), ("model:judges/tiny:v1", "Be strict.", 1, 0.0)]
    assert agreement_of(other)["compared"] == 1
    assert agreement_of(rule)["isModel"] is False


def test_a_judges_agreement_over_everything_that_it_judged_stands_beside_that_over_one_evaluation(judged, capsys):
    here, elsewhere = judged(0.9), judged(0.9, answers={0: "another answer"})
    told_otherwise = judged(0.9, answers={0: "a third answer"}, told="Be strict.")
    mark(here, 1)
    assert agreement_of(here)["overall"]["compared"] == 1
    for row in (elsewhere, told_otherwise):
        mark(row, 0)
    found = agreement_of(here)
    assert (found["compared"], found["agreement"]) == (1, 1.0)
    assert (found["overall"]["compared"], found["overall"]["agreement"]) == (2, 0.5)
    assert [(judge["graderInstructions"], judge["compared"]) for judge in agreement_of_model("judges/tiny:v1")] == [
        ("Grade.", 2), ("Be strict.", 1)]
    assert agreement_of_model("judges/other:v1") == []
    assert evaluations.Command().run(["agreement", here.pk]) == 0
    assert "1 of 2 (50.0%), kappa 0.000" in capsys.readouterr().out


def test_an_answer_that_a_judge_scored_twice_counts_once(judged):
    row, _ = judged(0.9), judged(0.9)
    mark(row, 1)
    assert [(judge["compared"], judge["isModel"]) for judge in agreement_by_judge()] == [(1, True)]


def test_marks_are_kept_together_or_not_at_all_and_only_by_operators(judged):
    row = judged(0.9)
    with pytest.raises(MalformedMark, match="no answer to the row 5"):
        mark_answers(row, [Wish(0, 1), Wish(5, 1)], actor=LOCAL)
    with pytest.raises(MalformedMark, match="each of another row"):
        mark_answers(row, [Wish(0, 1), Wish(0, 0)], actor=LOCAL)
    with pytest.raises(Forbidden):
        mark(row, 1, actor=Actor("vic", "viewer"))
    assert not Mark.objects.exists()


def test_marks_by_api_and_by_command(judged, client, capsys):
    row = judged(0.9, 0.1)
    sent = client.post(f"/v1/training/evaluations/{row.pk}/marks", json.dumps(
        {"marks": [{"position": 0, "verdict": "right"}, {"position": 1, "score": 0.25}]}), "application/json")
    assert (sent.status_code, sent.json()["agreement"]) == (200, 1.0)
    both = client.post(f"/v1/training/evaluations/{row.pk}/marks", json.dumps(
        {"marks": [{"position": 0, "verdict": "right", "score": 1}]}), "application/json")
    assert both.json()["code"] == "malformed_mark"
    assert client.get(f"/v1/training/evaluations/{row.pk}/agreement").json()["marked"] == 2
    for words in (["mark", row.pk[:12], "1", "clear"], ["agreement", row.pk[:12]]):
        assert evaluations.Command().run(words) == 0
        assert "1 of 1" in capsys.readouterr().out
    assert graders.Command().run(["agreement", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["graders"][0]["compared"] == 1
