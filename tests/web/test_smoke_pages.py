"""A smoke check on its run's page: the verdict, and what was not reproduced beside what it should have been."""

import pytest
from django.urls import reverse

from runs.forms import document_of
from runs.operations import advance_run
from tests import factories as make
from tests.web import scenes
from tests.web.test_lifecycle_pages import page, shown, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]


@pytest.fixture
def checked(db):
    """A check that missed one row of four, whose answer is markup."""
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(12)
    run = scenes.submit(smoke={"sliceSize": 4})
    make.run_job(
        {"type": "stage", "name": "reproducing", "done": 0, "total": 4},
        {"type": "missed", "position": 2, "prompt": [{"role": "user", "content": "My parcel is late"}],
         "expected": "queue shipping", "answer": "<b>queue billing</b>", "finish": "length"},
        {"type": "smoke", "verdict": "failed", "score": 0.75, "threshold": 0.98, "rows": 4, "scored": 4,
         "reproduced": 3, "toolAnswers": 0, "memorised": True, "step": 12})
    advance_run(run.pk)
    return run


@pytest.mark.requirement("R196")
def test_a_checks_page_has_its_verdict_and_the_rows_that_were_missed(viewer, checked):
    answer = viewer.get(reverse("runs:detail", args=[checked.pk]))
    assert "failed: 3 of 4 rows reproduced (75.0%, at least 98.0% wanted)" in text_of(answer)
    assert b"&lt;b&gt;queue billing" in answer.content
    for part in ("Row 2", "queue shipping", "Did not end by itself", "My parcel is late"):
        assert part in text_of(answer)
    assert "smoke: failed" in page(viewer, "runs:list")


def test_a_run_that_is_no_check_has_no_such_tab(viewer, checked):
    run = scenes.submit()
    assert "Smoke check" not in shown(viewer, run)
    assert "Smoke check" not in shown(viewer, run, "smoke")


@pytest.mark.requirement("R196")
def test_the_admin_shows_verdict_and_rows_and_changes_neither(admin, checked):
    assert "failed" in text_of(admin.get(reverse("admin:runs_run_changelist")))
    rows = reverse("admin:runs_missedrow_changelist")
    assert "queue shipping" in text_of(admin.get(rows))
    assert admin.get(reverse("admin:runs_missedrow_add")).status_code == 403


@pytest.mark.requirement("R046")
def test_the_guided_form_can_ask_for_a_check_and_the_plan_says_what_it_does(operator, checked):
    values = {"workload": scenes.WORKLOAD, "baseModel": scenes.BASE, "config.dataset": f"{scenes.WORKLOAD}/train",
              "smoke.sliceSize": "20"}
    assert document_of(values)["smoke"] == {"sliceSize": 20}
    answer = operator.post(reverse("runs:check"), values)
    assert "the first 20 rows, at most 2,000 updates, 98.0% to be reproduced" in text_of(answer)
