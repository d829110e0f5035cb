"""Scored completions of reinforcement runs: kept once, read by update, counted, and told on route and command."""

import json

import pytest
from django.test import Client

from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.errors import Forbidden
from optimize_site.kernel.work import attempt_folder
from runs.management.commands.runs import Command
from runs.models import Metric, Rollout, RolloutStep, Run
from runs.operations import may_read_rollouts
from runs.operations.rollouts import UNREADABLE
from tests.factories import make_device, make_run
from tests.playing import STARTED, claim, end, metrics, reread, say
from tests.rolling import WEIGHTS, completion, figures, rollouts, told

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    for name in ("OPTIMIZE_CONTEXT", "AKKA_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(db):
    """A run whose job is ready to train; it scores completions, whatever it was submitted as."""
    make_device()
    made = make_run("AWAITING_CAPACITY")
    Run.objects.filter(pk=made.pk).update(method="grpo")
    return reread(made)


@pytest.fixture
def training(run):
    """The same with three updates told: one, two and three of four completions right."""
    attempt = claim(run)
    said = [event for step in (1, 2, 3) for event in (rollouts(attempt, step, told(step)), figures(step))]
    return say(run, attempt, STARTED, *said), attempt


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def ask(capsys):
    """Run a command line; gives exit status and output."""
    def ask(*argv):
        status = Command().run([str(part) for part in argv])
        return status, capsys.readouterr().out

    return ask


# Kept ----------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R274", "R276")
def test_every_scored_completion_of_an_update_is_kept_as_it_was_told(run):
    attempt = claim(run)
    lines = [completion(0, 0, "a\x00b\ud800", {"format": 1.0, "exact": None}, finish="length", advantage=-0.5),
             completion(0, 1, "", {"format": 0.0, "exact": 0.0}, score=None, excluded=True)]
    say(run, attempt, STARTED, rollouts(attempt, 1, lines))
    first, second = Rollout.objects.order_by("index")
    assert first.completion == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert (first.prompt, first.asked, first.row) == (lines[0]["prompt"], "What is 2 + 3?", 10)
    assert (first.score, first.advantage, first.finish, first.terms) == (0.25, -0.5, "length", lines[0]["terms"])
    assert (second.score, second.excluded) == (None, True)
    assert RolloutStep.objects.values_list("step", "count", "attempt").get() == (1, 2, 1)


@pytest.mark.requirement("R274")
def test_a_replayed_update_takes_the_place_of_what_was_kept_of_it_and_the_file_goes_once_that_holds(
        training, django_capture_on_commit_callbacks):
    run, attempt = training
    end(run, attempt, "lost")
    again = claim(reread(run))
    with django_capture_on_commit_callbacks(execute=True):
        say(run, again, STARTED, rollouts(again, 3, told(4)[:6]))
    kept = Rollout.objects.filter(run=run, step=3)
    assert set(kept.values_list("attempt", flat=True)) == {again.number}
    assert (kept.count(), Rollout.objects.count()) == (6, 22)
    assert RolloutStep.objects.get(step=3).figures["scored_reward_mean"] == 1.25
    assert list((attempt_folder(again.pk) / "rollouts").iterdir()) == []


@pytest.mark.parametrize("spoil", [
    lambda path, event: path.unlink(), lambda path, event: path.write_text("{"),
    lambda path, event: path.write_text(path.read_text() * 2), lambda path, event: event.update(count=9),
    lambda path, event: event.update(file="../../../elsewhere/rollouts.jsonl")])
def test_a_file_that_cannot_be_used_costs_its_rollouts_and_a_warning_and_never_the_run(run, spoil):
    attempt = claim(run)
    event = rollouts(attempt, 1, told())
    spoil(attempt_folder(attempt.pk) / event["file"], event)
    run = say(run, attempt, STARTED, event, figures(1))
    assert [warning["code"] for warning in run.warnings if "code" in warning][-1] == UNREADABLE
    assert (run.observed_step, Rollout.objects.count(), RolloutStep.objects.count()) == (1, 0, 0)
