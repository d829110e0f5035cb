"""Pages of analyses: one while it runs and when it is done, the lengths on a dataset's page, and in a run's plan."""

import json
import re

import pytest
from django.urls import reverse

from datasets.analyses import queries
from datasets.analyses.plots import WIDTH, plot_lengths
from datasets.models import Analysis, ExampleSet
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def dataset():
    make.make_device("cpu")
    make.make_device("host", kind="host", profile="host")
    make.make_base_model()
    return make.make_dataset("triage/train", 4)


def text(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def page(client, analysis):
    return client.get(reverse("datasets:analysis", args=[analysis.pk]))


def test_a_dataset_s_page_starts_an_analysis_and_goes_to_it(operator, viewer, dataset):
    lengths = "/datasets/triage/train?tab=lengths"
    assert "Analyze</button>" in operator.get(lengths).content.decode()
    assert "Analyze</button>" not in viewer.get(lengths).content.decode()
    answer = operator.post(reverse("datasets:analyze", args=["triage", "train"]), {"version": "v1",
                                                                                    "model": make.TINY})
    analysis = Analysis.objects.get()
    assert answer["Location"] == f"/datasets-analysis/{analysis.pk}"
    shown = page(operator, analysis)
    assert "Waiting" in text(shown) and "Cancel</button>" in shown.content.decode()
    assert "holds no device" in text(shown)


def test_it_shows_how_far_it_is_then_its_figures_with_the_limits_in_the_picture(viewer, dataset):
    analysis = make.analyze(dataset, [100, (900, 300), 600, 40], histogram={"edges": [0, 400, 800, 1200],
                                                                            "counts": [2, 1, 1]})
    shown = page(viewer, analysis)
    body = shown.content.decode()
    for words in ("Half are under", "Suggested", "1,024", "Longer", "When trimmed", "shipped"):
        assert words in text(shown)
    assert body.count("<rect") == 3
    assert 'class="limit" x="307.2"' in body
    assert 'role="img" aria-label="4 rows by their tokens' in body
    assert page(viewer, analysis).status_code == 200
    assert viewer.get(reverse("datasets:analysis", args=[analysis.pk]),
                      headers={"HX-Request": "true"}).status_code == 286


def test_home_shows_one_that_runs_the_search_finds_it_and_its_dataset_says_how_far_it_is(viewer, operator, dataset):
    operator.post(reverse("datasets:analyze", args=["triage", "train"]), {"version": "v1", "model": make.TINY})
    attempt = make.claim_job("host")
    make.tell_job(attempt, {"type": "started", "pid": 1, "versions": {}},
                  {"type": "stage", "name": "measuring", "done": 1, "total": 4, "unit": "rows"})
    assert f"/datasets-analysis/{attempt.holder_id}" in viewer.get("/").content.decode()
    found = viewer.get("/search", {"q": attempt.holder_id[:12]})
    assert found["Location"] == f"/datasets-analysis/{attempt.holder_id}"
    assert "1 of 4 rows" in text(page(viewer, Analysis.objects.get()))
    assert "Measuring 25.0%" in text(viewer.get("/datasets/triage/train?tab=lengths"))


def test_the_picture_places_every_limit_inside_its_bin():
    report = make.analysis_report([100, 900]) | {"histogram": {"edges": [0, 512, 1024], "counts": [1, 1]}}
    plot = plot_lengths(report, "rows")
    assert [(mark.words, mark.x) for mark in plot.limits] == [("512", WIDTH / 2)]
    assert plot_lengths(report | {"histogram": {}}, "rows") is None


def test_rows_that_the_template_does_not_render_are_listed_with_their_reason(viewer, dataset):
    analysis = make.analyze(dataset, [10] * 4, templateProblemRows=1, templateProblems=[
        {"line": 3, "row": 2, "kind": "refused", "where": "row", "reason": "the chat template refuses <this>"}])
    shown = page(viewer, analysis)
    assert "1 row that the chat template does not render whole" in text(shown)
    assert "the chat template refuses &lt;this&gt;" in shown.content.decode()


def test_a_failed_one_says_why_and_starts_again_only_where_that_can_help(operator, dataset):
    analysis = make.analyze(dataset, [10] * 4)
    for code, may in (("unexpected", True), ("bad_row", False)):
        Analysis.objects.update(phase="FAILED", failure_code=code, failure_reason="It broke.")
        shown = page(operator, analysis)
        assert "It broke." in text(shown)
        assert ("Start again</button>" in shown.content.decode()) is may
    Analysis.objects.update(failure_code="unexpected")
    operator.post(reverse("datasets:analysis-again", args=[analysis.pk]))
    operator.post(reverse("datasets:analysis-cancel", args=[analysis.pk]))
    assert queries.get_analysis(analysis.pk).phase == "CANCELLED"


def test_prepared_rows_offer_no_analysis(operator, dataset):
    ExampleSet.objects.update(format="prepared-tokens-v1", details={"longestRow": 700})
    shown = operator.get("/datasets/triage/train?tab=lengths")
    assert "the longest has 700" in text(shown)


@pytest.mark.requirement("R120")
def test_a_run_s_plan_and_page_show_the_lengths_and_link_to_the_analysis(operator, dataset):
    make.make_workload()
    analysis = make.analyze(dataset, [100, 200, 300, 400])
    form = {"kind": "run", "workload": "triage", "baseModel": make.TINY, "config.dataset": "triage/train"}
    plan = operator.post(reverse("runs:check"), form)
    assert "none longer than 2,048" in text(plan)
    assert f"/datasets-analysis/{analysis.pk}" in plan.content.decode()
    run = make.make_run()
    from runs.operations import advance_run

    advance_run(run.pk)
    shown = operator.get(f"/runs/{run.pk}?tab=data")
    assert "Checked before the run took a device" in text(shown)
    assert f"/datasets-analysis/{analysis.pk}" in shown.content.decode()


@pytest.mark.requirement("R126")
def test_a_run_s_plan_shows_what_the_rows_hold_and_how_many_were_read(operator, dataset, monkeypatch):
    make.make_workload()
    doubled = make.make_dataset("triage/doubled", make.chat_rows(5) + make.chat_rows(5))
    form = {"kind": "run", "workload": "triage", "baseModel": make.TINY, "config.dataset": "triage/doubled"}
    plan = text(operator.post(reverse("runs:check"), form))
    assert "Read all 10 examples" in plan and "Duplicates 5 (row 5 = row 0" in plan
    assert "Shapes 10 × user assistant" in plan
    assert "No analysis of these rows under acme/tiny is done" in plan
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_EXAMPLES", "6")
    assert "Read 6 of 10 examples for these findings; the rest may differ." in text(
        operator.post(reverse("runs:check"), form))
    analysis = make.analyze(doubled, [10] * 10, languages=[{"language": "en", "rows": 10}],
                            duplicates={"exact": 5, "near": 2, "examples": []},
                            labels=[{"field": "<b>", "values": [{"value": "<i>", "rows": 10}]}])
    answer = operator.post(reverse("runs:check"), form)
    for words in ("Near-duplicates 2, and 5 that render as an earlier one does", "Languages en 10. A guess",
                  "Tokens 100 an epoch", "Answers: &lt;b&gt; &lt;i&gt; 10 (100%). Uneven: it is the only value."):
        assert words in text(answer)
    assert answer.content.decode().count(f"/datasets-analysis/{analysis.pk}") == 2


@pytest.mark.requirement("R126")
def test_a_run_s_plan_says_which_rows_offer_tools(operator, dataset):
    make.make_workload()
    rows = [json.loads(line) | {"tools": [{"type": "function", "function": {"name": "find"}}]}
            for line in make.chat_rows(3).splitlines()]
    make.make_dataset("triage/tools", "\n".join(map(json.dumps, rows)).encode())
    form = {"kind": "run", "workload": "triage", "baseModel": make.TINY, "config.dataset": "triage/tools"}
    assert "Offer tools 3" in text(operator.post(reverse("runs:check"), form))
