"""The page that goes on with a run's training, and the branch form's horizon in epochs."""

import pytest

from runs.models import Run, Snapshot
from tests import factories as make
from tests.web import scenes
from tests.web.test_lifecycle_pages import page, send, shown, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]


@pytest.fixture
def done(db):
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(12)
    return scenes.complete(scenes.train(24, steps=24, configName="r8"))


def states_of(run):
    return list(Snapshot.objects.filter(run=run).order_by("-step"))


def test_a_runs_page_offers_to_continue_its_training_and_says_why_where_that_is_impossible(operator, done):
    assert f'href="/runs/{done.pk}/continue"' in shown(operator, done)
    Snapshot.objects.filter(run=done).update(swept=["trainingState"])
    text = shown(operator, done)
    assert f'href="/runs/{done.pk}/continue"' not in text
    assert "none with a training state." in text
    assert "none with a training state." in page(operator, "runs:continue", done.pk)


def test_the_form_goes_on_from_the_newest_state_at_the_learning_rate_it_states(operator, done):
    newest, *_ = states_of(done)
    form = page(operator, "runs:continue", done.pk)
    assert f'value="{newest.pk}"' in form and "(the newest)" in form and "Learning rate" in form
    values = {"snapshot": newest.pk, "steps": "5", "learning_rate": "2e-5"}
    plan = text_of(send(operator, "runs:continue-check", done.pk, **values))
    assert "Training state" in plan and "optimizer, generators and place in the data go on" in plan
    assert "hyperparams.optimizer.learningRate" in plan and "Continue training" in plan
    assert f'formaction="/runs/{done.pk}/continue"' in plan
    assert not Run.objects.filter(parent=done).exists()
    send(operator, "runs:continue", done.pk, **values)
    child = Run.objects.get(parent=done)
    assert (child.source_snapshot, child.total_steps, child.restore_mode) == (newest, 5, "trainingState")
    assert child.config["hyperparams"]["optimizer"]["learningRate"] == 2e-5


@pytest.mark.parametrize(("values", "sentence"), [
    ({"steps": "0"}, "a branch trains at least one update"),
    ({"steps": "soon"}, "a branch trains at least one update"),
    ({"learning_rate": "fast"}, "optimizer.learningRate"),
    ({"learning_rate": "-1"}, "optimizer.learningRate"),
])
def test_what_cannot_be_gone_on_with_is_refused_in_the_form_and_when_sent(operator, done, values, sentence):
    sent = {"steps": "4"} | values
    assert sentence in text_of(send(operator, "runs:continue-check", done.pk, **sent))
    answer = send(operator, "runs:continue", done.pk, **sent)
    assert answer.status_code >= 400 and sentence in text_of(answer)
    assert not Run.objects.filter(parent=done).exists()


def test_a_viewer_sees_what_it_would_be_and_may_not_start_it(viewer, done):
    plan = text_of(send(viewer, "runs:continue-check", done.pk, steps="4"))
    assert "Needs the role operator" in plan
    assert send(viewer, "runs:continue", done.pk, steps="4").status_code == 403


def test_a_branch_is_given_a_horizon_in_epochs_in_its_form(operator, done):
    newest, *_ = states_of(done)
    values = {"snapshot": newest.pk, "steps": "", "epochs": "2", "max_steps": "9", "restore": "auto"}
    plan = text_of(send(operator, "runs:branch-check", done.pk, **values))
    assert "2 epochs" in plan and "it trains for epochs of its own" in plan
    both = text_of(send(operator, "runs:branch-check", done.pk, **values | {"steps": "4"}))
    assert "states steps 4 and epochs 2; it trains for one of the two" in both
    send(operator, "runs:branch", done.pk, **values)
    training = Run.objects.get(parent=done).config["hyperparams"]["training"]
    assert (training["epochs"], training["maxSteps"]) == (2, 9)
    text = shown(operator, done, "branches")
    assert "weights" in text and "None" not in text


def test_the_figures_can_be_taken_away_for_tensorboard(viewer, done):
    assert f'href="/runs/{done.pk}/tensorboard" download' in shown(viewer, done)
    answer = viewer.get(f"/runs/{done.pk}/tensorboard")
    assert "events.out.tfevents." in answer["Content-Disposition"]
    assert b"train/loss" in b"".join(answer.streaming_content)
