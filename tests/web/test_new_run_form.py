"""The guided form of a new run for every method, and its reward, term by term."""

import html
import json
import re

import pytest
from django.urls import reverse

from runs.models import Run
from tests import factories as make
from tests.web import scenes

pytestmark = pytest.mark.django_db
GRPO = {"mode": "form", "workload": scenes.WORKLOAD, "baseModel": scenes.BASE, "config.method": "grpo",
        "config.dataset": f"{scenes.WORKLOAD}/train"}


@pytest.fixture
def box(db, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(12)


def names_in(text):
    return set(re.findall(r'name="([^"]+)"', text))


def fields(client, **filled):
    return client.post(reverse("runs:fields"), GRPO | filled).content.decode()


@pytest.mark.parametrize(("method", "has", "has_not"), [
    ("sft", "config.loss.assistantTurns", "config.preference.beta"),
    ("dpo", "config.preference.beta", "config.loss.assistantTurns"),
    ("grpo", "config.rlHyperparams.groupSize", "config.hyperparams.training.epochs"),
    ("gspo", "warmStartModelId", "config.data.truncation")])
def test_each_method_has_its_own_fields(operator, box, method, has, has_not):
    answer = operator.post(reverse("runs:fields"), GRPO | {"config.method": method})
    found = names_in(answer.content.decode())
    assert has in found
    assert has_not not in found
    assert answer["HX-Trigger-After-Swap"] == "fields-changed", "the plan is worked out again"


def test_the_form_pauses_a_run_and_says_where_it_would_be_over_by_then(operator, box):
    assert 'name="pauseAtStep"' in fields(operator)
    sent = {"mode": "form", "workload": scenes.WORKLOAD, "baseModel": scenes.BASE, "config.method": "sft",
            "config.dataset": f"{scenes.WORKLOAD}/train", "config.hyperparams.training.maxSteps": "4"}
    told = "pauseAtStep is 4 and the run makes at most 4 updates; it ends without pausing."
    for step, is_told in (("4", True), ("3", False)):
        plan = operator.post(reverse("runs:check"), sent | {"pauseAtStep": step}).content.decode()
        assert (told in html.unescape(plan)) == is_told
    operator.post(reverse("runs:new"), sent | {"pauseAtStep": "3"})
    assert Run.objects.get().pause_at_step == 3


def test_defaults_are_those_of_the_method(operator, box):
    text = fields(operator)
    assert 'name="config.rlHyperparams.optimizer.learningRate" value=""' in text
    rate = text[text.index('name="config.rlHyperparams.optimizer.learningRate"'):]
    assert 'placeholder="0.00001"' in rate[:300]
    schedule = text[text.index('name="config.rlHyperparams.scheduler.kind"'):]
    assert "Default: constant" in schedule[:400] and "linear" not in schedule[:schedule.index("</select>")]
    pairs = fields(operator, **{"config.method": "dpo"})
    assert "Default: Yes where a pass holds more than one pair" in pairs, "a flag's default in the words of its choices"


@pytest.mark.requirement("R029")
def test_terms_are_added_asked_for_their_parameters_and_removed(operator, box):
    first = fields(operator, do="add")
    assert {"term.0.scorer", "term.1.scorer", "term.1.weight"} <= names_in(first), "the run's grader was the first"
    chosen = {"term.0.scorer": "run", "term.1.scorer": "regex", "term.1.weight": "0.5", "term.1.p.pattern": "^ok"}
    text = fields(operator, **chosen)
    assert {"term.1.p.pattern", "term.1.p.match"} <= names_in(text)
    assert 'value="^ok"' in text and 'value="0.5"' in text
    left = fields(operator, **chosen, do="remove-0")
    assert "term.1.scorer" not in names_in(left)
    assert 'value="^ok"' in left
    assert {"term.0.bundle", "term.0.module", "term.0.function"} <= names_in(
        fields(operator, **{"term.0.scorer": "bundle"}))


@pytest.mark.requirement("R231")
def test_a_format_term_is_offered_where_the_reward_is_strict_only(operator, box):
    check = reverse("runs:check")
    plan = operator.post(check, GRPO).content.decode()
    assert "Add a format term" in plan
    assert "8 prompts × 4" in plan
    text = html.unescape(fields(operator, do="format"))
    assert '<option value="json-schema" selected>' in text
    assert '"type": "object"' in text, "the workload's grader compares JSON labels"
    for last, rule in (("#### 4", "answer-line"), ("4", "json-schema")):
        rows = [{"messages": [{"role": "user", "content": f"{one} + 1?"}, {"role": "assistant", "content": answer}]}
                for one, answer in ((2, "One more.\n#### 3"), (3, f"One more.\n{last}"))]
        make.make_dataset(f"sums/{rule}", "".join(json.dumps(row) + "\n" for row in rows).encode())
        named = {"config.dataset": f"sums/{rule}"}
        assert f'<option value="{rule}" selected>' in fields(operator, do="format", **named)
        assert f"grader: '{rule}" in html.unescape(operator.post(check, GRPO | named).content.decode())
    assert '<option value="json-schema" selected>' in fields(operator, do="format", **{"config.dataset": "no/such"})
    formed = GRPO | {"term.0.scorer": "run", "term.1.scorer": "contains", "term.1.p.texts": "billing"}
    assert "Add a format term" not in operator.post(check, formed).content.decode()


def test_a_terms_problem_stands_beside_it(operator, box):
    text = operator.post(reverse("runs:check"), GRPO | {"term.0.scorer": "regex"}).content.decode()
    beside = text[text.index('id="problem-term-0"'):]
    assert "pattern" in beside[:300]
    odd = operator.post(reverse("runs:check"), GRPO | {"term.0.scorer": "json-schema", "term.0.p.schema": "{"})
    assert odd.status_code == 200


@pytest.mark.requirement("R028", "R029")
def test_the_form_starts_a_reinforcement_run_and_opens_with_what_it_stated(operator, box):
    make.measured(f"{scenes.WORKLOAD}/train", repository=scenes.BASE)
    filled = GRPO | {"config.rlHyperparams.groupSize": "6", "term.0.scorer": "json-label-match", "term.0.weight": "0.8",
                     "term.1.scorer": "regex", "term.1.weight": "0.2", "term.1.p.pattern": r"^\{.*\}$",
                     "config.reward.onFailure": "exclude", "config.hyperparams.training.epochs": "9"}
    answer = operator.post(reverse("runs:new"), filled)
    assert answer.status_code == 302, answer.content.decode()[:2000]
    run = Run.objects.get()
    assert (run.method, run.config["rlHyperparams"]["groupSize"]) == ("grpo", 6)
    assert [(term["weight"], term["grader"].partition(":")[0]) for term in run.config["reward"]["terms"]] == [
        (0.8, "json-label-match"), (0.2, "regex")]
    assert run.config["reward"]["onFailure"] == "exclude"
    again = html.unescape(operator.get(reverse("runs:new"), {"from": run.pk}).content.decode())
    assert r'value="^\{.*\}$"' in again and 'value="0.8"' in again
    assert '<option value="grpo" selected>' in again


def test_what_stands_in_a_term_is_text_and_no_markup(operator, box):
    text = fields(operator, **{"term.0.scorer": "contains", "term.0.weight": "<b>", "term.0.p.texts": "<script>"})
    assert "<script>" not in text.replace("<script src", "") and "&lt;script&gt;" in text


@pytest.mark.parametrize("term", [
    {"kind": "grader"}, {"kind": "grader", "weight": 2, "grader": "http:https://scores.example/a"},
    {"kind": "rule", "weight": 0.5, "bundle": "b", "module": "m", "function": "f"},
    {"kind": "model", "model": "x/judge:v1", "instructions": "Be strict."},
    {"kind": "grader", "grader": 'contains:{"texts":["a","b"]}'}])
def test_a_descriptors_term_comes_back_from_the_form_as_it_was(term):
    from optimize_site.kernel.graders import available_grader
    from runs.reward_form import terms_of

    (found,) = terms_of({"terms": [term]})
    written = found.document()
    if "p.texts" in found.values:
        written["grader"] = available_grader(written["grader"])
    assert json.dumps(written, sort_keys=True) == json.dumps(term, sort_keys=True)


@pytest.mark.requirement("R028")
def test_a_form_that_begins_with_a_run_shows_what_no_input_holds_and_what_can_no_longer_be_chosen(operator, box):
    descriptor = {"kind": "run", "workload": "gone", "baseModel": "some/model-of-before", "config": {
        "dataset": "d", "method": "dpo"}, "graderInstructions": "Be strict.\nSay why.", "grader": "model:x/judge:v1",
        "execution": {"engine": "trl", "deviceProfile": "cpu"}, "submissionId": "mine"}
    made = make.make_run("AWAITING_CAPACITY")
    Run.objects.filter(pk=made.pk).update(descriptor=descriptor)
    text = html.unescape(operator.get(reverse("runs:new"), {"from": made.pk}).content.decode())
    assert '<option value="gone" selected>' in text and '<option value="some/model-of-before" selected>' in text
    assert ">Be strict.\nSay why.</textarea>" in text
    assert 'name="execution.deviceProfile" value="cpu"' in text
    (rest,) = re.findall(r'<textarea id="f-rest"[^>]*>([^<]*)</textarea>', text)
    assert json.loads(rest) == {"execution": {"engine": "trl"}}
    assert '<details open><summary>Fields without an input' in text
    twice = operator.post(reverse("runs:check"), GRPO | {"execution.gpus": "2", "rest": "execution: {gpus: 1}"})
    assert "stated by its input and again" in twice.content.decode()
