"""A reinforcement run's pages: its figures and curves, its rewards, and what it sampled."""

import json

import pytest
from django.urls import reverse

from optimize_site.kernel.words import concept_address
from runs.models import Rollout, RolloutStep, Run
from tests import factories as make
from tests.web import scenes
from tests.web.test_lifecycle_pages import page, shown, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def run(db):
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(12)
    return scenes.reinforce(12)


@pytest.mark.requirement("R275")
def test_a_page_puts_the_worst_of_an_update_beside_the_best_with_each_terms_share(operator, run):
    assert '<span class="soft small">reward</span>' in page(operator, "runs:list")
    text = page(operator, "runs:rollouts", run.pk)
    assert text.index(">Worst<") < text.index(">Best<") < text.index("All 16 in the order")
    assert text.count('class="card rollout"') == 10
    assert ">json-label-match</span><span class=\"bar" in text
    assert f"runs rollouts {run.pk} --worst 5 --best 5 --step 12" in text
    assert "What this prompt got in other updates" in text
    earlier = page(operator, "runs:rollouts", run.pk, step="3", show="all")
    assert "16 rollouts of update 3" in earlier
    assert page(operator, "runs:rollouts", run.pk, term="regex").count('class="card rollout"') == 10


@pytest.mark.requirement("R273")
def test_a_page_shows_how_an_update_is_spread_and_what_was_said_more_than_once(operator, run):
    text = page(operator, "runs:rollouts", run.pk)
    for part in ("16 rollouts by reward: half of them under", "rollouts by tokens", "Share of regex", "Said already",
                 "Said more than once", "Different pairs of words"):
        assert part in text
    rewards = shown(operator, run, "rewards")
    assert "The spread of the reward over updates 1 to 12" in rewards
    assert "The spread of the length over updates 1 to 12" in rewards


@pytest.mark.requirement("R273")
def test_of_many_terms_the_spread_of_a_chosen_one_is_shown_and_stays_chosen(operator, run):
    names = [f"t{number}/a b" for number in range(6)]
    Run.objects.filter(pk=run.pk).update(references=run.references | {"reward": [{"name": name} for name in names]})
    for step in run.rollout_steps.all():
        spread = step.histograms["terms"]["regex"]
        step.histograms["terms"] = dict.fromkeys(names, spread)
        step.save()
    first = shown(operator, run, "rewards")
    assert first.count('class="card spread-map"') == 3 and "Share of t0/a b" in first
    assert all(f">{name}</option>" in first for name in names)
    text = operator.get(reverse("runs:detail", args=[run.pk]), {"tab": "rewards", "term": names[4]}).content.decode()
    assert "The spread of the share of t4/a b over updates 1 to 12" in text and "Share of t0/a b" not in text
    assert "<option selected>t4/a b</option>" in text
    assert 'hx-include="#map-term"' in text, "what is looked at again is the term that was chosen"
    assert "Share of t0/a b" in shown(operator, run, "rewards"), "an unknown one is the first"


def test_a_sign_of_reward_hacking_stands_on_the_tab_with_both_curves_and_none_is_no_proof(operator, run):
    RolloutStep.objects.all().delete()
    for row in run.metrics.all():
        row.values = {"reward": 0.1 * row.step, "completion_mean": 50.0}
        row.save()
    text = shown(operator, run, "rewards")
    assert "A sign of reward hacking" not in text and "No curve goes against the reward so far" in text
    for row in run.metrics.all():
        row.values |= {"completion_mean": 120 - 8 * row.step}
        row.save()
    text = shown(operator, run, "rewards")
    assert text.count("A sign of reward hacking") == 1
    assert "The reward rose from 0.2 to 1.1 while completions shrank from 104 to 32 tokens." in text
    assert "No curve goes against the reward" not in text


@pytest.mark.parametrize(("typed", "words"), [("abc", "'abc' is no update"), ("-3", "No rollouts of update -3"),
                                              (str(10**20), f"No rollouts of update {10**20}")])
def test_an_update_that_is_not_kept_is_named_as_it_was_typed(operator, run, typed, words):
    answer = operator.get(reverse("runs:rollouts", args=[run.pk]), {"step": typed})
    assert answer.status_code in {400, 404}
    assert words in text_of(answer)


def test_texts_are_found_in_one_update_or_in_all_and_stay_texts(operator, run):
    text = page(operator, "runs:rollouts", run.pk, search="<b>the customer", everywhere="yes")
    assert "&lt;b>The customer" not in text and "<b>The customer" in text  # unescaped by text_of
    raw = operator.get(reverse("runs:rollouts", args=[run.pk]), {"search": "<b>the customer", "everywhere": "yes"})
    assert b"&lt;b&gt;The customer" in raw.content and b"<b>The customer" not in raw.content
    assert "Nothing holds this text." in page(operator, "runs:rollouts", run.pk, search="no such words")
    refused = operator.get(reverse("runs:rollouts", args=[run.pk]), {"step": "99"})
    assert refused.status_code == 404 and "Kept are 12 updates, from 1 to 12." in text_of(refused)


def test_one_prompt_is_followed_through_the_updates_and_the_difference_marked(operator, run):
    text = page(operator, "runs:rollouts-of-row", run.pk, 4, **{"from": "1", "to": "12"})
    assert "What row 4 got" in text
    assert text.count("<option") == 24
    assert "<del>" in text and "<ins>" in text
    assert "No kept update asked this row." in page(operator, "runs:rollouts-of-row", run.pk, 999)


@pytest.mark.requirement("R271")
def test_a_runs_page_has_its_reward_figures_failures_by_cause_and_the_judges_tokens(operator, viewer, run):
    text = shown(operator, run)
    for part in ("Groups without spread", "Reward by term", "KL from the reference", "Seconds to score a rollout",
                 'data-names="term.json-label-match.mean,term.regex.mean"', "Tokens of the judge"):
        assert part in text
    assert "Validation loss</" not in text
    rewards = shown(operator, run, "rewards")
    for part in ("timeout", "tokens so far", "json-label-match", "Read the rollouts"):
        assert part in rewards
    assert "Read the rollouts" in shown(viewer, run, "rewards")


def test_the_curves_hold_what_the_job_told_and_what_its_rollouts_come_to(operator, run):
    found = json.loads(operator.get(reverse("runs:series", args=[run.pk])).content)["series"]
    for name in ("reward", "reward_p95", "term.regex.mean", "completions_shared", "failures.timeout", "judge_tokens"):
        assert found[name]["steps"], name
    assert found["reward"]["steps"] == found["completions_repeated"]["steps"] == list(range(1, 13))
    table = operator.get(reverse("runs:metrics-csv", args=[run.pk])).content.decode().splitlines()
    assert "completions_shared" in table[0] and len(table) == 13


def test_a_run_without_rollouts_says_why(operator, run):
    RolloutStep.objects.all().delete()
    assert "made before rollouts were kept" in page(operator, "runs:rollouts", run.pk)
    assert "made before rollouts were kept" in shown(operator, run, "rewards")
    supervised = scenes.submit()
    assert "samples none of its own" in page(operator, "runs:rollouts", supervised.pk)
    assert "Rewards" not in shown(operator, supervised)
    Run.objects.filter(pk=supervised.pk).update(method="gspo")
    assert "from the first update on" in page(operator, "runs:rollouts", supervised.pk)


def test_what_a_model_said_is_read_by_whoever_sees_the_run_and_by_no_stranger(viewer, admin, run, client):
    rows = reverse("admin:runs_rollout_changelist")
    for address in (reverse("runs:rollouts", args=[run.pk]), reverse("runs:rollouts-of-row", args=[run.pk, 4]), rows):
        assert viewer.get(address).status_code == 200
        assert client.get(address).status_code == 302
    assert viewer.get(rows, {"q": Rollout.objects.first().completion[:9]}).status_code == 200
    assert admin.get(reverse("admin:runs_rolloutstep_changelist")).status_code == 200
    assert admin.post(reverse("admin:runs_rollout_add")).status_code == 403


def test_the_words_of_these_pages_are_explained():
    assert concept_address("reward hacking") == "/docs/rollouts#signs-of-reward-hacking"
