"""Pages of pipelines and comparisons: where they stand at a glance, what is checked before, what is refused."""

import html
import json
import re

import pytest
from django.urls import reverse
from django.utils import timezone

from evaluations.models import Comparison, Evaluation, Pipeline, Stage
from evaluations.operations.comparisons import advance_comparisons
from evaluations.operations.pipelines import advance_pipelines
from optimize_site.kernel.auth import LOCAL
from runs.models import Candidate, Run
from runs.operations import register_candidate, tend_snapshots
from tests import factories as make
from tests.playing import save
from tests.web import scenes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]


@pytest.fixture
def box(db):
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(12)
    make.measured(f"{scenes.WORKLOAD}/train", f"{scenes.WORKLOAD}/eval", repository=scenes.BASE)


def text_of(answer):
    return html.unescape(re.sub(r"\s+", " ", answer.content.decode()))


def page(client, name, *args, **query):
    return text_of(client.get(reverse(f"evaluations:{name}", args=args), query))


def send(client, name, *args, htmx=False, **values):
    return client.post(reverse(f"evaluations:{name}", args=args), values,
                       headers={"HX-Request": "true"} if htmx else {})


def start(client, document=None, **values):
    send(client, "pipeline-new", text=json.dumps(document or scenes.pipeline_document()), **values)
    advance_pipelines()
    return Pipeline.objects.first()


def settle(pipeline, score):
    """The first stage's run is done and the second's evaluation has that score."""
    model = scenes.complete(scenes.train(24, steps=24)).model
    first, judge = pipeline.stages.get(name="first"), pipeline.stages.get(name="judge")
    Run.objects.filter(pk=first.run_id).update(phase="COMPLETED", model=model, ended_at=timezone.now())
    advance_pipelines()
    judge.refresh_from_db()
    Evaluation.objects.filter(pk=judge.evaluation_id).update(phase="COMPLETED", mean_score=score,
                                                             ended_at=timezone.now())
    advance_pipelines()
    pipeline.refresh_from_db()


@pytest.mark.requirement("R034", "R035")
def test_a_pasted_pipeline_is_checked_while_it_is_written_and_started_once(operator, box):
    document = scenes.pipeline_document()
    plan = text_of(send(operator, "pipeline-check", text=json.dumps(document)))
    assert "Ready to start" in plan and "after first" in plan and "0.6" in plan
    assert not Pipeline.objects.exists()
    token = re.search(r'name="submissionId" value="([^"]+)"', plan).group(1)
    start(operator, submissionId=token)
    start(operator, submissionId=token)
    assert Pipeline.objects.count() == 1


@pytest.mark.parametrize(("change", "sentence"), [
    ({"workload": "nowhere"}, "nowhere"),
    ({"stages": []}, "stages is missing"),
    ({"stages": [{"name": "a", "type": "evaluate", "model": "@b"}]}, "no earlier stage is called so"),
    ({"kind": "run"}, "it must be pipeline"),
])
def test_what_is_wrong_with_a_pipeline_is_said_before_and_after_it_is_sent(operator, box, change, sentence):
    text = json.dumps(scenes.pipeline_document() | change)
    assert sentence in text_of(send(operator, "pipeline-check", text=text))
    answer = send(operator, "pipeline-new", text=text)
    assert answer.status_code == 422 and sentence in text_of(answer)
    assert not Pipeline.objects.exists()
    unwritten = text_of(send(operator, "pipeline-check", text=" "))
    assert "There is no descriptor yet." in unwritten and 'class="note bad"' not in unwritten


@pytest.mark.requirement("R034")
def test_a_pipelines_page_shows_at_a_glance_where_it_stands(operator, box):
    pipeline = start(operator)
    text = page(operator, "pipeline", pipeline.pk)
    assert "0 of 3 stages done, at first" in text and text.count('aria-current="step"') == 1
    run = pipeline.stages.get(name="first").run
    assert f'href="/runs/{run.pk}"' in text and "at least 0.6000" in text and "Cancel pipeline" in text
    assert f"Stage first of <a href=\"/pipelines/{pipeline.pk}\"" in text_of(operator.get(f"/runs/{run.pk}"))
    settle(pipeline, 0.72)
    text = page(operator, "pipeline", pipeline.pk)
    assert "2 of 3 stages done, at longer" in text and "0.7200" in text
    assert '<span class="gate" style="left:60.0%"></span>' in text and 'class="at" style="left:72.0%"' in text
    listed = page(operator, "pipelines")
    assert "Longer only where it pays" in listed and "2<span class=\"soft\"> / 3" in listed


@pytest.mark.requirement("R034")
def test_a_gate_that_was_not_met_ends_it_and_it_is_taken_up_again_from_its_page(operator, box):
    pipeline = start(operator)
    settle(pipeline, 0.4)
    text = page(operator, "pipeline", pipeline.pk)
    assert "It scored 0.4000, below its gate 0.6." in text and "gate_not_met" in text and "Not run" in text
    assert "below its gate" in text_of(operator.get("/"))
    send(operator, "pipeline-resume", pipeline.pk)
    pipeline.refresh_from_db()
    assert pipeline.phase == "RUNNING"
    assert pipeline.stages.get(name="first").state == Stage.State.COMPLETED


def test_a_pipeline_is_cancelled_annotated_and_written_again_from_its_page(operator, viewer, box):
    pipeline = start(operator)
    assert send(viewer, "pipeline-cancel", pipeline.pk).status_code == 403
    send(operator, "pipeline-annotate", pipeline.pk, description="Nightly <b>one</b>")
    assert "Nightly <b>one</b>" in page(operator, "pipelines")
    assert b"<b>one" not in operator.get(reverse("evaluations:pipelines")).content
    send(operator, "pipeline-cancel", pipeline.pk)
    pipeline.refresh_from_db()
    assert pipeline.phase == "CANCELLED"
    refused = send(operator, "pipeline-cancel", pipeline.pk, htmx=True)
    assert refused.status_code == 409 and "nothing to cancel" in text_of(refused)
    again = operator.get(reverse("evaluations:pipeline-new"), {"from": pipeline.pk}).content.decode()
    assert "kind: pipeline" in again and "submissionId" not in again.split("<aside")[0].split("<textarea")[1]
    assert operator.get("/search", {"q": pipeline.pk[:12]})["Location"] == f"/pipelines/{pipeline.pk}"


@pytest.fixture
def compared(operator, box):
    """A comparison of a run's save with two branches that made models, every one being scored."""
    parent = scenes.train(24, steps=24, configName="r8")
    make.tell_job(parent.attempt, save(parent.attempt, 10))
    parent = scenes.complete(parent)
    snapshot = parent.snapshots.get(step=10)
    for seed in (1, 2):
        send_branch = reverse("runs:branch", args=[parent.pk])
        operator.post(send_branch, {"snapshot": snapshot.pk, "steps": "4", "config_name": f"seed {seed}",
                                    "overrides": json.dumps({"hyperparams": {"training": {"seed": 90 + seed}}})})
    Run.objects.filter(parent=parent).update(phase="COMPLETED", model=parent.model)
    form = page(operator, "comparison-new", source=snapshot.pk)
    assert "seed 1" in form and "seed 2" in form and "Every completed branch" in form
    send(operator, "comparison-new", source=snapshot.pk, which="all", dataset=f"{scenes.WORKLOAD}/eval",
         grader="json-label-match")
    tend_snapshots()
    advance_comparisons()
    return Comparison.objects.get()


def score(row, *scores):
    for target, value in zip(row.targets.all(), scores, strict=True):
        ended = {"phase": "COMPLETED", "mean_score": value} if value is not None else {
            "phase": "FAILED", "failure_reason": "No device."}
        Evaluation.objects.filter(pk=target.evaluation_id).update(ended_at=timezone.now(), **ended)
    advance_comparisons()


@pytest.mark.requirement("R017")
def test_a_comparisons_page_names_the_winner_and_what_differs_once_all_are_scored(operator, compared):
    text = page(operator, "comparison", compared.pk)
    assert "0 of 3 scored or given up" in text and "The save had 2 branches" in text
    assert "0 of 12 rows" in text and "did best" not in text
    assert '<a href="/evaluations" aria-current="page">' in text
    score(compared, 0.5, 0.7, 0.6)
    text = page(operator, "comparison", compared.pk)
    assert "<b>seed 1</b> did best with 0.7000" in text and text.count("winner</span>") == 1
    assert text.index("seed 1</a>") < text.index("seed 2</a>") < text.index("r8</a>")
    assert "hyperparams.training.seed" in text and "91" in text
    assert "seed 1" not in page(operator, "comparisons") and compared.pk[:12] in page(operator, "comparisons")


@pytest.mark.requirement("R017")
def test_where_one_could_not_be_scored_no_winner_is_named(operator, compared):
    score(compared, 0.5, None, 0.6)
    text = page(operator, "comparison", compared.pk)
    assert "Some could not be scored, so no winner is named." in text and "No device." in text
    assert "did best" not in text


def test_the_form_offers_the_saves_of_the_run_that_became_models(operator, box):
    parent = scenes.complete(scenes.train(24, steps=24))
    source, other = parent.snapshots.order_by("step").filter(has_weights=True)[:2]
    register_candidate(other, actor=LOCAL)
    assert "became models" not in page(operator, "comparison-new", source=source.pk), "it is on its way yet"
    Candidate.objects.update(phase=Candidate.REGISTERED, version=parent.model)
    assert f'name="candidate" value="{parent.model_id}"' in page(operator, "comparison-new", source=source.pk)
    send(operator, "comparison-new", source=source.pk, which="chosen", candidate=parent.model_id,
         dataset=f"{scenes.WORKLOAD}/eval", grader="json-label-match")
    assert Comparison.objects.get().targets.get(position=1).model_id == parent.model_id


def test_a_comparison_of_nothing_is_refused_in_its_form(operator, box):
    parent = scenes.complete(scenes.train(24, steps=24))
    snapshot = parent.snapshots.order_by("-step").first()
    answer = send(operator, "comparison-new", source=snapshot.pk, which="chosen", dataset=f"{scenes.WORKLOAD}/eval")
    assert answer.status_code == 422 and "Nothing was selected" in text_of(answer)
    assert "Nothing was branched from it yet." in page(operator, "comparison-new", source=snapshot.pk)
    assert "No snapshot begins so." in page(operator, "comparison-new", source="ffff")
    assert not Comparison.objects.exists()
