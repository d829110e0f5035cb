"""The pages of runs: what a run shows, the guided form, refusals beside their fields, cancelling."""

import json

import pytest
from django.urls import reverse
from django.utils.html import escape

from runs import forms
from runs.models import Run
from tests import factories as make
from tests.web import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def setting_up(db):
    make.make_device("cpu")
    scenes.base_model()
    return scenes.workload(12)


@pytest.fixture
def running(setting_up):
    return scenes.train(16, steps=24, configName="r8", description="<script>alert('note')</script>")


def page(client, run, **query):
    return client.get(reverse("runs:detail", args=[run.pk]), query).content.decode()


@pytest.mark.requirement("R023", "R176")
def test_a_runs_page_shows_phase_progress_metrics_cost_timing(viewer, running):
    text = page(viewer, running)
    assert "Training" in text and 'aria-current="step"' in text
    assert 'role="progressbar"' in text and "about " in text and " left" in text
    assert "Device time" in text and "so far" in text
    assert "Training loss" in text and "Validation loss" in text and "perplexity" in text
    assert 'data-names="loss,validation_loss"' in text


@pytest.mark.requirement("R270")
def test_a_preference_runs_page_shows_its_accuracy_its_margin_and_which_loss(viewer, running):
    assert "Preference accuracy" not in page(viewer, running)
    Run.objects.filter(pk=running.pk).update(method="dpo")
    loss = {"kind": "ipo", "beta": 0.2, "fused": True, "how": "one pair at a time"}
    make.tell_job(
        running.attempt, {"type": "engine_config", "requested": {}, "resolved": {"preferenceLoss": loss}},
        {"type": "metrics", "step": 17, "values": {"loss": 0.4, "preference_accuracy": 0.75, "reward_margin": 0.3125}},
        {"type": "validation", "step": 17, "loss": 0.5, "perplexity": None})
    text = " ".join(page(viewer, running).split())
    assert "75" in text and "0.3125" in text and "ipo at beta 0.2, one pair at a time" in text
    assert 'data-names="preference_accuracy"' in text and 'data-names="reward_margin"' in text
    assert 'data-names="reward_chosen,reward_rejected" data-labels="Chosen|Rejected"' in text
    assert "perplexity" not in text[text.index("0.5000"):text.index("0.5000") + 40]


@pytest.mark.requirement("R177")
def test_a_runs_page_shows_what_a_restore_repeats(viewer, running):
    running.refresh_from_db()
    text = " ".join(page(viewer, running).split())
    assert running.observed_step == 16 and running.saved_step == 16
    assert "nothing to repeat" in text
    make.tell_job(running.attempt, {"type": "metrics", "step": 17, "values": {"loss": 0.4}})
    text = " ".join(page(viewer, running).split())
    assert "17 <small>of 24" in text and "a restore repeats 1" in text


@pytest.mark.requirement("R176")
def test_a_failed_runs_page_says_why_and_what_to_do_at_the_top(viewer, running):
    scenes.fail(running, "non_finite_loss", "The loss was NaN at update 17.", "Lower optimizer.learningRate.",
                {"step": 17})
    text = page(viewer, running)
    assert text.index("The loss was NaN at update 17.") < text.index('aria-label="Phases"')
    assert "Lower optimizer.learningRate." in text and "non_finite_loss" in text and "Evidence" in text


def test_what_people_and_jobs_write_is_never_markup(viewer, running):
    for tab in ("", "logs", "settings", "events"):
        text = page(viewer, running, tab=tab)
        assert "<script>alert" not in text, tab
    assert "&lt;script&gt;alert(&#x27;log&#x27;)" in page(viewer, running, tab="logs")
    assert "\x1b" not in page(viewer, running, tab="logs")


def test_each_tab_shows_its_part(viewer, running):
    expected = {"snapshots": "training state", "data": "Trained tokens", "settings": "lora.rank", "checks": "Reference",
                "logs": "Attempt 1", "events": "Submitted"}
    for tab, words in expected.items():
        part = viewer.get(reverse("runs:detail", args=[running.pk]), {"tab": tab}, headers={"HX-Request": "true"})
        assert words in part.content.decode(), tab
        assert b"<html" not in part.content


def test_settings_are_marked_stated_or_default(viewer, running):
    text = " ".join(page(viewer, running, tab="settings").split())
    assert 'lora.rank</th><td class="wrap mono">8</td><td><span class="tag accent">stated</span>' in text
    assert 'lora.dropout</th><td class="wrap mono">0</td><td><span class="soft">default</span>' in text


@pytest.mark.requirement("R023")
def test_curves_come_whole_then_in_steps_and_whole_again_after_a_resume(viewer, running):
    address = reverse("runs:series", args=[running.pk])
    first = viewer.get(address).json()
    assert first["isWhole"] and first["last"] == 16
    assert first["series"]["loss"]["steps"] == list(range(1, 17))
    assert first["replaced"]["validation_loss"]["steps"] == [8, 16]
    assert [mark["step"] for mark in first["marks"]] == [16, 8]
    make.tell_job(running.attempt, {"type": "metrics", "step": 17, "values": {"loss": 0.4}},
                  {"type": "validation", "step": 17, "loss": 0.5, "perplexity": 1.6})
    known = {"after": first["last"], "attempt": first["attempt"]}
    more = viewer.get(address, known).json()
    assert (more["isWhole"], more["series"]["loss"]["steps"], more["series"]["loss"]["values"]) == (False, [17], [0.4])
    assert more["replaced"]["validation_loss"]["steps"] == [8, 16, 17]
    make.end_job(running.attempt, "lost")
    make.tell_job(make.claim_job(), {"type": "started", "pid": 2, "versions": {}})
    again = viewer.get(address, known).json()
    assert again["isWhole"]


def test_a_step_that_is_not_a_number_is_a_gap_and_not_an_error(viewer, running):
    make.tell_job(running.attempt, {"type": "metrics", "step": 17, "values": {"loss": None, "grad_norm": 1.0}})
    answer = viewer.get(reverse("runs:series", args=[running.pk])).json()
    assert answer["series"]["loss"]["steps"][-1] == 16
    assert answer["series"]["grad_norm"]["steps"][-1] == 17


def test_figures_can_be_had_as_a_table(viewer, running):
    answer = viewer.get(reverse("runs:metrics-csv", args=[running.pk]))
    lines = answer.content.decode().splitlines()
    assert lines[0].startswith("step,attempt,at,") and "loss" in lines[0]
    assert len(lines) == 17


def test_an_operator_cancels_with_the_button_and_a_second_time_is_refused_in_words(operator, setting_up):
    run = scenes.submit(steps=24)
    cancel = reverse("runs:cancel", args=[run.pk])
    answer = operator.post(cancel, headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == reverse("runs:detail", args=[run.pk])
    run.refresh_from_db()
    assert run.phase == "CANCELLED"
    again = operator.post(cancel, headers={"HX-Request": "true"})
    assert again.status_code == 409
    assert again["HX-Retarget"] == "#refusal"
    assert b"is CANCELLED; there is nothing to cancel." in again.content
    assert b"Go back" in operator.post(cancel).content


def test_a_viewer_sees_the_button_and_why_it_does_nothing(viewer, running):
    text = page(viewer, running)
    assert 'aria-disabled="true"' in text and "Needs the role operator; you are a viewer." in text


# The form ------------------------------------------------------------------------------------------------------------


FILLED = {"workload": scenes.WORKLOAD, "baseModel": scenes.BASE, "config.dataset": f"{scenes.WORKLOAD}/train"}


def check(client, **changes):
    return client.post(reverse("runs:check"), FILLED | changes, headers={"HX-Request": "true"}).content.decode()


def test_the_plan_shows_the_resolved_settings_and_the_hash(operator, setting_up):
    text = check(operator)
    assert "Ready to start" in text
    assert "optimizer.learningRate" in text and "0.0001" in text
    assert "Configuration" in text
    assert reverse("runs:preview") in text


def test_each_problem_stands_beside_its_field_in_the_apis_words(operator, setting_up):
    wrong = {"config.hyperparams.lora.rank": "-8", "config.hyperparams.scheduler.minLearningRateRatio": "0.1",
             "config.dataset": "nothing/here", "config.maxSeqLength": "many"}
    text = check(operator, **wrong)
    document = forms.document_of(FILLED | wrong)
    api = operator.post("/v1/training/runs?dryRun=true", json.dumps(document), content_type="application/json").json()
    assert api["valid"] is False
    for problem in api["problems"]:
        assert escape(problem["message"]) in text, problem
    for key in ("config-hyperparams-lora-rank", "config-hyperparams-scheduler-minLearningRateRatio", "config-dataset",
                "config-maxSeqLength"):
        beside = text.split(f'id="problem-{key}"')[1].split("</span>")[0]
        assert len(beside) > 40, key
    assert "lora.rank is -8; it must not be negative." in text
    assert "4 problems" in text
    empty = text.split('id="problem-config-hyperparams-lora-alpha"')[1].split("</span>")[0]
    assert empty.endswith(">")


def test_a_field_still_to_be_filled_in_is_no_fault_yet(operator, setting_up):
    text = check(operator, **{"config.dataset": ""})
    assert "1 field to fill in" in text
    beside = text.split('id="problem-config-dataset"')[1].split("</span></span>")[0]
    assert 'class="needed"' in beside and "dataset is missing." in beside


def test_the_start_button_waits_for_a_valid_plan(operator, viewer, setting_up):
    assert 'aria-disabled="true" disabled' in check(operator, **{"config.dataset": ""})
    assert "disabled" not in check(operator).split("Start run")[0].rsplit("<button", 1)[1]
    assert "you are a viewer" in check(viewer)


def test_the_plan_shows_time_memory_and_cost_with_their_origin_or_why_they_are_unknown(operator, setting_up):
    text = check(operator)
    plan = " ".join(text.partition('aria-label="Estimates"')[2].partition("</section>")[0].split())
    for label in ("Updates", "Time", "Cost", "Host memory"):
        assert f"<dt>{label}</dt>" in plan or f">{label}<span" in plan, label
    assert '<span class="tag">computed</span>' in plan
    assert "Nobody stated what an hour of cpu costs" in plan
    assert "/docs/estimates#peak-memory" in plan


@pytest.mark.requirement("R003", "R011")
def test_the_form_submits_the_same_run_as_the_api(operator, setting_up):
    answer = operator.post(reverse("runs:new"), FILLED | {"config.hyperparams.training.epochs": "2"})
    run_id = answer["Location"].rpartition("/")[2]
    document = {"kind": "run", "workload": scenes.WORKLOAD, "baseModel": scenes.BASE,
                "config": {"dataset": f"{scenes.WORKLOAD}/train", "hyperparams": {"training": {"epochs": 2}}}}
    api = operator.post("/v1/training/runs", json.dumps(document), content_type="application/json").json()
    from runs.models import Run

    mine, theirs = Run.objects.get(pk=run_id), Run.objects.get(pk=api["runId"])
    assert (mine.config_hash, mine.execution, mine.stated) == (theirs.config_hash, theirs.execution, theirs.stated)


def test_a_second_click_on_one_plan_reaches_the_same_run(operator, setting_up):
    token = check(operator).split('name="submissionId" value="')[1].split('"')[0]
    first, second = (operator.post(reverse("runs:new"), FILLED | {"submissionId": token}) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert check(operator).split('name="submissionId" value="')[1].split('"')[0] != token


def test_a_refused_form_comes_back_filled_with_the_same_words(operator, setting_up):
    answer = operator.post(reverse("runs:new"), FILLED | {"config.hyperparams.lora.rank": "-8"})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert 'value="-8"' in text and "lora.rank is -8; it must not be negative." in text


def test_a_pasted_descriptor_is_checked_and_started(operator, setting_up):
    text = f"kind: run\nworkload: {scenes.WORKLOAD}\nbaseModel: {scenes.BASE}\nconfig:\n  dataset: train\n"
    pasted = {"mode": "descriptor", "text": text}
    assert "Ready to start" in operator.post(reverse("runs:check"), pasted).content.decode()
    answer = operator.post(reverse("runs:new"), pasted)
    assert answer.status_code == 302
    broken = operator.post(reverse("runs:check"), {"mode": "descriptor", "text": "{"}).content.decode()
    assert "not JSON" in broken or "neither JSON nor YAML" in broken


def test_running_again_fills_the_form_with_the_earlier_descriptor(operator, setting_up):
    run = scenes.submit(steps=24, configName="r8-e3")
    text = operator.get(reverse("runs:new"), {"from": run.pk}).content.decode()
    assert 'value="r8-e3"' in text and 'value="0.001"' in text
    text = operator.get(reverse("runs:new"), {"from": run.pk, "mode": "descriptor"}).content.decode()
    assert "configName: r8-e3" in text


def test_the_list_narrows_and_pages(viewer, setting_up):
    for number in range(3):
        scenes.submit(steps=24, configName=f"run-{number}")
    assert viewer.get(reverse("runs:list")).content.decode().count('scope="row"') == 3
    assert b"No such run" in viewer.get(reverse("runs:list"), {"phase": "failed"}).content
    assert viewer.get(reverse("runs:list"), {"phase": "nonsense"}).status_code == 400
    assert viewer.get(reverse("runs:list"), {"offset": "-5"}).status_code == 200
    assert viewer.get(reverse("runs:list"), {"offset": "99999"}).status_code == 200
