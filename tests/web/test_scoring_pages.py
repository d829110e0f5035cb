"""The page of an evaluation whose grader is no rule: how far it is, why rows have no score, and asking again."""

import pytest
from django.urls import reverse

from evaluations.models import Evaluation
from evaluations.operations.evaluations import Request, start_evaluation
from evaluations.templatetags.graders import grader_words
from optimize_site.kernel.auth import LOCAL
from tests.db.test_scoring_evaluations import GRADER, STARTED, answer, box, scored  # noqa: F401
from tests.factories import claim_job, end_job, run_job, tell_job


@pytest.mark.django_db
def test_the_page_says_what_is_judged_why_the_rest_is_not_and_asks_again(box, operator):  # noqa: F811
    row = start_evaluation(Request(model="triage/tiny", grader=GRADER), actor=LOCAL).evaluation
    run_job(*(answer(position) for position in range(4)))
    address = reverse("evaluations:detail", args=[row.pk])
    assert "Waiting for the grader" in operator.get(address).content.decode()
    attempt = claim_job("host")
    tell_job(attempt, STARTED, scored(0, 0.5), scored(1, None, "timeout", "Too <b>slow</b>."), scored(2, 1.0))
    page = operator.get(address).content.decode()
    assert "Scoring" in page and 'title="timeout">timeout</span> 1' in page
    assert "Not judged yet" in page and 'aria-valuenow="75"' in page
    assert "Too &lt;b&gt;slow" in page and "<b>slow" not in page
    tell_job(attempt, scored(3, 0.0))
    end_job(attempt)
    assert "Ask the grader again" in operator.get(address).content.decode()
    operator.post(reverse("evaluations:retry", args=[row.pk]))
    assert Evaluation.objects.get(pk=row.pk).phase == "AWAITING_GRADER"


@pytest.mark.django_db
def test_a_weighted_grader_is_named_by_its_terms(box, operator):  # noqa: F811
    grader = 'weighted:{"terms":[{"grader":"exact","name":"brief & kind"},{"grader":"regex:{\\"pattern\\":\\"a\\"}"}]}'
    row = start_evaluation(Request(model="triage/tiny", grader=grader), actor=LOCAL).evaluation
    page = operator.get(reverse("evaluations:detail", args=[row.pk])).content.decode()
    assert ">weighted: brief &amp; kind, regex</code>" in page


def test_a_grader_in_a_line_is_as_it_is_written_where_it_is_short():
    assert grader_words("exact") == "exact"
    assert grader_words(f'regex:{{"pattern":"{"a" * 100}"}}') == f'regex:{{"pattern":"{"a" * 61}…'
