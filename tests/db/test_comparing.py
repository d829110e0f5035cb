"""`runs compare`: a figure against the first run's, by route and command; other plans only where they are meant."""

import json

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL
from runs.comparing import compare_runs
from runs.errors import PlansDiffer, RunsNotComparable
from runs.loss_windows import Terms
from runs.management.commands.runs import Command
from runs.models import Metric, Run
from tests.factories import make_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


def trained(losses, *, norms=(), rate=1e-4):
    run = make_run(config={"hyperparams": {"optimizer": {"learningRate": rate}}})
    Metric.objects.bulk_create([
        Metric(run=run, step=step, attempt=1, at=run.created_at,
               values={"loss": loss, "grad_norm": norms[step - 1] if norms else 1.0})
        for step, loss in enumerate(losses, start=1)])
    return run


def test_runs_of_one_plan_are_held_against_the_first(db):
    base, other = trained([1.0, 0.9, 0.8, 0.7]), trained([1.0, 0.9, 0.9, 0.9], norms=[1, 1, 1, 9])
    found = compare_runs([base, other], Terms(window=2, margin=0.1))
    (pair,) = found["pairs"]
    assert [round(window["meanDifference"], 6) for window in pair["windows"]] == [0.0, 0.15]
    assert (pair["firstParting"]["first"], pair["firstParting"]["last"]) == (3, 4)
    assert pair["meanDifference"] == pytest.approx(0.075)
    assert [run["spikes"] for run in found["runs"]] == [[], [{"step": 4, "gradNorm": 9, "median": 1.0}]]
    assert found["samePlan"] and found["differences"] == []


def test_different_plans_are_refused_unless_they_are_meant_and_then_what_differs_stands_beside(db):
    base, other = trained([1.0]), trained([1.2], rate=2e-4)
    with pytest.raises(PlansDiffer, match=r"learningRate is 0.0001 and 0.0002"):
        compare_runs([base, other], Terms())
    found = compare_runs([base, other], Terms(across_plans=True))
    assert not found["samePlan"]
    assert found["differences"] == [{"path": "hyperparams.optimizer.learningRate", "values": [1e-4, 2e-4]}]


def test_what_cannot_be_compared_is_refused_with_the_reason(db):
    run, other = trained([1.0]), trained([1.0])
    with pytest.raises(RunsNotComparable, match="1 run named"):
        compare_runs([run], Terms())
    with pytest.raises(RunsNotComparable, match="different ones"):
        compare_runs([run, run], Terms())
    with pytest.raises(RunsNotComparable, match="window is 0"):
        compare_runs([run, other], Terms(window=0))


def learned(method, **figures):
    """A run of the method that reported these figures, a value an update."""
    run = make_run(**({"grader": "exact", "config": {"method": method}} if method != "sft" else {}))
    Metric.objects.bulk_create([
        Metric(run=run, step=step, attempt=1, at=run.created_at, values=dict(zip(figures, values, strict=True)))
        for step, values in enumerate(zip(*figures.values(), strict=True), start=1)])
    return run


@pytest.mark.parametrize(("one", "other"), [("sft", "grpo"), ("gspo", "sft"), ("sft", "dpo"), ("dpo", "grpo")])
def test_methods_whose_figures_mean_different_things_have_no_chart_in_common(one, other):
    first, second = trained([1.0]), trained([1.0])
    for run, method in ((first, one), (second, other)):
        Run.objects.filter(pk=run.pk).update(method=method)
        run.refresh_from_db()
    with pytest.raises(RunsNotComparable, match=f"trains by {one} and reports .+ trains by {other} and reports"):
        compare_runs([first, second], Terms(across_plans=True))


def test_runs_that_learn_from_rewards_are_compared_by_them(capsys):
    first = learned("grpo", reward=[0.2, 0.4, 0.5], loss=[0.0, 0.0, 0.0], kl=[0.0, 0.1, 0.2])
    second = learned("gspo", reward=[0.2, 0.4, 0.8], loss=[9.0, 9.0, 9.0], kl=[0.0, 0.2, 0.4])
    found = compare_runs([first, second], Terms(window=3, across_plans=True))
    assert (found["figure"], found["figures"]) == ("reward", ["reward", "kl"])
    assert [run["last"] for run in found["runs"]] == [0.5, 0.8]
    assert found["pairs"][0]["meanDifference"] == pytest.approx(0.1)
    words = ["compare", first.pk, second.pk, "--across-plans", "--window", "3"]
    Command().run(words)
    out = capsys.readouterr().out
    assert "REWARD" in out and "Mean difference in reward for each 3 updates" in out and "+0.1000" in out
    Command().run([*words, "--figure", "kl", "-o", "json"])
    assert json.loads(capsys.readouterr().out)["pairs"][0]["meanDifference"] == pytest.approx(0.1)
    assert Command().run([*words, "--figure", "loss"]) != 0
    assert "figure is 'loss'; these runs report the reward of completions and are compared by reward or kl" in (
        capsys.readouterr().err)


def test_runs_over_pairs_are_compared_by_their_loss_or_their_accuracy():
    runs = [trained([0.7, 0.6]), trained([0.7, 0.5])]
    for run, accuracy in zip(runs, (0.5, 0.75), strict=True):
        Run.objects.filter(pk=run.pk).update(method="dpo")
        run.refresh_from_db()
        for metric in run.metrics.all():
            metric.values |= {"preference_accuracy": accuracy}
            metric.save()
    assert compare_runs(runs, Terms(window=2))["pairs"][0]["meanDifference"] == pytest.approx(-0.05)
    found = compare_runs(runs, Terms(window=2, figure="preferenceAccuracy"))
    assert found["pairs"][0]["meanDifference"] == pytest.approx(0.25)


def test_the_route_and_the_command_say_the_same(capsys):
    from optimize_site.kernel import accounts

    base, other = trained([1.0, 0.9]), trained([1.0, 1.3], rate=2e-4)
    user, _ = accounts.create_user("vera", "viewer", actor=LOCAL)
    browser = Client()
    browser.force_login(user)
    refused = browser.get("/v1/training/runs/compare", {"run": [base.pk, other.pk]})
    assert (refused.status_code, refused.json()["code"]) == (422, "plans_differ")
    told = browser.get("/v1/training/runs/compare", {"run": [base.pk[:12], other.pk], "acrossPlans": "true",
                                                     "window": 2}).json()
    assert told["pairs"][0]["firstParting"]["first"] == 1
    Command().run(["compare", base.pk, other.pk, "--across-plans", "--window", "2", "-o", "json"])
    assert json.loads(capsys.readouterr().out) == told
    Command().run(["compare", base.pk, other.pk, "--across-plans", "--window", "2"])
    text = capsys.readouterr().out
    assert "+0.2000" in text and "1 to 2" in text and "hyperparams.optimizer.learningRate" in text
    assert Command().run(["compare", base.pk, other.pk]) != 0
    assert "different plans" in capsys.readouterr().err
