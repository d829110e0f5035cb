"""Marking answers on an evaluation's page, and the agreement it shows."""

import pytest
from django.urls import reverse

from evaluations.models import Evaluation, Mark, Prediction
from tests.factories import make_dataset, make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def row():
    dataset = make_dataset("triage/eval", 3)
    found = Evaluation.objects.create(
        workload=make_workload(), dataset=dataset, content_hash=dataset.content_hash, grader="model:judges/tiny:v1",
        grader_instructions="Grade <b>hard</b>.", instructions_source="stated", phase="FAILED", base_model="acme/tiny",
        created_by="local", num_rows=3, num_answered=2)
    for position, score in enumerate((0.9, 0.1)):
        Prediction.objects.create(evaluation=found, position=position, prompt={"messages": []}, expected="e",
                                  answer=f"answer {position}", score=score)
    return found


def test_an_operator_marks_an_answer_and_sees_the_agreement_change(operator, row):
    page = operator.get(reverse("evaluations:detail", args=[row.pk])).content.decode()
    assert "Mark a few answers" in page
    assert "Grade &lt;b&gt;hard&lt;/b&gt;." in page
    address = reverse("evaluations:mark", args=[row.pk])
    found = operator.post(address, {"position": "1", "mark": "right"}, headers={"HX-Request": "true"})
    assert 'id="mark-1"' in found.content.decode()
    assert 'id="agreement"' in found.content.decode() and 'hx-swap-oob="true"' in found.content.decode()
    assert (Mark.objects.get().by, Mark.objects.get().score) == ("a-operator", 1.0)
    assert operator.post(address, {"position": "0", "mark": "right"}).status_code == 302
    page = operator.get(reverse("evaluations:detail", args=[row.pk])).content.decode()
    assert "50.0%" in page and "People say" in page


def test_a_viewer_sees_marks_and_cannot_make_any(viewer, operator, row):
    address = reverse("evaluations:mark", args=[row.pk])
    operator.post(address, {"position": "0", "mark": "wrong"})
    assert "People say" in viewer.get(reverse("evaluations:detail", args=[row.pk])).content.decode()
    assert viewer.post(address, {"position": "0", "mark": "right"}).status_code == 403


@pytest.mark.parametrize("sent", [{}, {"position": "x", "mark": "right"}, {"position": "0", "mark": "good"},
                                  {"position": "7", "mark": "right"}, {"position": "9" * 40, "mark": "right"}])
def test_a_mark_that_is_none_is_refused(operator, row, sent):
    assert operator.post(reverse("evaluations:mark", args=[row.pk]), sent).status_code == 400
