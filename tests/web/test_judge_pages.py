"""The pages of judges: which are held or were, for what, how they are, and how far they agree with people."""

import pytest
from django.urls import reverse

from evaluations.models import Evaluation, Prediction
from evaluations.operations.marks import Wish, mark_answers
from optimize_site.kernel.auth import LOCAL
from registry.models import BaseModel
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def judge():
    """A registered model."""
    make.make_device()
    return make.make_adapter(make.make_workload("judges"), make.put_weights(make.make_base_model()))


@pytest.fixture
def evaluation(judge):
    """A completed evaluation that the model judged, one answer of it marked by hand."""
    dataset = make.make_dataset("triage/eval", 3)
    row = Evaluation.objects.create(
        workload=make.make_workload(), dataset=dataset, content_hash=dataset.content_hash, num_rows=3, num_answered=1,
        grader=f"model:{judge.reference}", grader_instructions="Grade <b>hard</b>.", phase="FAILED",
        instructions_source="stated", base_model="acme/tiny", created_by="local")
    Prediction.objects.create(evaluation=row, position=0, prompt={"messages": []}, expected="e", answer="a", score=0.9)
    mark_answers(row, [Wish(0, 1.0)], actor=LOCAL)
    return row


def page(client, name, *named, **asked):
    return client.get(reverse(f"evaluations:{name}", args=named), asked).content.decode()


def test_the_list_says_what_each_judge_is_held_for_its_state_memory_and_last_fault(viewer, judge, evaluation):
    run = make.make_run(phase="PAUSED", configName="with-a-judge")
    make.make_judge(judge, "run", run.pk, phase="RELEASED")
    make.make_judge(judge, "evaluation", evaluation.pk, stage={"done": 7, "peakMemoryBytes": 3 << 29})
    make.make_judge(judge, "run", "gone" * 16, phase="FAILED", failure_reason="<i>It is gone.</i>")
    shown = page(viewer, "judges")
    for said in ("Resting", "Answering", "Failed", "with-a-judge", reverse("runs:detail", args=[run.pk]),
                 reverse("evaluations:detail", args=[evaluation.pk]), "1.5 GiB", "&lt;i&gt;It is gone.&lt;/i&gt;"):
        assert said in shown, said
    assert reverse("evaluations:judges") in page(viewer, "list")
    ours = page(viewer, "judges", **{"for": run.pk})
    assert "with-a-judge" in ours and "It is gone." not in ours and f"judges list --for {run.pk}" in ours
    failed = page(viewer, "judges", phase="failed")
    assert "It is gone." in failed and "with-a-judge" not in failed


def test_a_judges_page_says_how_it_is_and_how_far_it_agrees_under_each_text_it_was_told(viewer, judge, evaluation):
    held = make.make_judge(judge, "evaluation", evaluation.pk, stage={"done": 7})
    shown = page(viewer, "judge", held.pk[:12])
    assert "Answers graded" in shown and "Grade &lt;b&gt;hard&lt;/b&gt;." in shown and "100.0%" in shown
    live = viewer.get(reverse("evaluations:judge", args=[held.pk]), headers={"HX-Request": "true"})
    assert live.status_code == 200 and "<html" not in live.content.decode()
    other = make.make_adapter(make.make_workload("others"), BaseModel.objects.get(), weights=b"other")
    assert "Nobody marked an answer" in page(viewer, "judge", make.make_judge(other, "run", "r" * 64).pk)


def test_the_agreement_over_everything_stands_on_the_list_and_on_the_evaluations_page(
        viewer, judge, evaluation, monkeypatch):
    again = Evaluation.objects.create(
        workload=evaluation.workload, dataset=evaluation.dataset, content_hash=evaluation.content_hash, num_rows=3,
        grader=evaluation.grader, grader_instructions=evaluation.grader_instructions, phase="FAILED",
        base_model="acme/tiny", created_by="local", num_answered=1)
    Prediction.objects.create(evaluation=again, position=0, prompt={"messages": []}, expected="e", answer="b",
                              score=0.1)
    mark_answers(again, [Wish(0, 1.0)], actor=LOCAL)
    assert "Grade &lt;b&gt;hard&lt;/b&gt;." in page(viewer, "judges") and "50.0%" in page(viewer, "judges")
    Evaluation.objects.filter(pk=again.pk).update(grader="exact", grader_instructions="")
    both = page(viewer, "judges")
    assert "Grade &lt;b&gt;hard" in both and "<code>exact</code>" in both and "graders agreement" not in both
    monkeypatch.setattr("evaluations.views.judges.GRADERS", 1)
    cut = page(viewer, "judges")
    assert "Grade &lt;b&gt;hard" not in cut and "<code>exact</code>" in cut and "graders agreement" in cut
    Evaluation.objects.filter(pk=again.pk).update(grader=evaluation.grader,
                                                  grader_instructions=evaluation.grader_instructions)
    shown = page(viewer, "detail", evaluation.pk)
    assert "Over everything that it judged: alike in 50.0% of 2 marked answers" in shown


def test_the_admin_lists_state_memory_and_fault_too(admin, judge):
    make.make_judge(judge, "run", "r" * 64, stage={"peakMemoryBytes": 3 << 29})
    make.make_judge(judge, "run", "s" * 64, phase="FAILED", failure_reason="It is gone.")
    shown = admin.get(reverse("admin:endpoints_judge_changelist")).content.decode()
    assert all(said in shown for said in ("Answering", "1.5 GiB", "Failed", "It is gone."))


def test_a_judge_is_found_by_the_id_that_the_box_shows(viewer, judge):
    held = make.make_judge(judge, "run", "r" * 64)
    assert viewer.get(reverse("box:search"), {"q": held.pk[:12]})["Location"] == reverse("evaluations:judge",
                                                                                        args=[held.pk])
