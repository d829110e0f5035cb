"""Tokens on pages: the trained ones marked, every token visible, refusals and hostile text shown as text."""

import json

import pytest
from django.urls import reverse

from optimize_site.kernel import short_jobs
from tests import factories as make
from tests.web import scenes

pytestmark = pytest.mark.django_db
ROW = {"row": 1, "place": "line 1", "state": "trained", "tokens": 6, "trainedTokens": 2, "isCut": False,
       "turnsRemoved": 0, "ids": [1, 40, 41, 7, 9, 2], "mask": [0, 0, 0, 0, 1, 1], "special": [1, 0, 0, 0, 0, 1],
       "pieces": ["<|im_start|>", "<script>", "", "\n", "yes", "<|im_end|>"]}
LEFT_OUT = {"row": 2, "place": "line 2", "state": "left_out", "code": "x", "reason": "It is too long.", "hint": ""}


@pytest.fixture
def setting_up(db, monkeypatch):
    class Played:
        def run(self, plan, *, kind, **_):
            return {"preview": {"chatTemplateSha256": "1" * 64, "problem": None, "isShortened": False,
                                "sequences": [[1]], "rows": [ROW, LEFT_OUT]}}

    monkeypatch.setattr(short_jobs, "_jobs", Played())
    make.make_device("cpu")
    scenes.base_model()
    return scenes.workload(12)


def test_a_new_runs_first_rows_are_shown_by_token_with_the_trained_ones_marked(operator, setting_up):
    form = {"mode": "descriptor", "text": json.dumps(scenes.document())}
    text = operator.post(reverse("runs:preview"), form).content.decode()
    assert '<span class="special" title="0: ID 1">&lt;|im_start|&gt;</span>' in text
    assert ('<mark><span title="4: ID 9">yes</span><span class="special" title="5: ID 2">&lt;|im_end|&gt;</span></mark>'
            in text)
    assert "&lt;script&gt;" in text and "<script>" not in text
    assert ">◌</span>" in text and ">⏎\n</span>" in text
    assert "Row 2 (line 2): left out. It is too long." in text
    assert "Packed among themselves: row 1." in text


def test_the_plan_offers_the_tokens_only_of_a_run_that_may_start(operator, setting_up):
    form = {"mode": "descriptor", "text": json.dumps(scenes.document())}
    good = operator.post(reverse("runs:check"), form).content.decode()
    assert reverse("runs:preview") in good
    bad = operator.post(reverse("runs:check"), form | {"text": "kind: run"}).content.decode()
    assert reverse("runs:preview") not in bad


def test_a_form_that_would_be_refused_shows_why_and_no_token(operator, setting_up):
    text = operator.post(reverse("runs:preview"), {"mode": "descriptor", "text": "kind: run"}).content.decode()
    assert "problems" in text and "tokens" not in text


def test_a_runs_data_tab_offers_its_tokens_to_whoever_may_look(viewer, setting_up):
    run = scenes.train(16, steps=24)
    page = viewer.get(reverse("runs:detail", args=[run.pk]), {"tab": "data"}).content.decode()
    assert reverse("runs:preview-run", args=[run.pk]) in page
    assert "<mark>" in viewer.get(reverse("runs:preview-run", args=[run.pk])).content.decode()
