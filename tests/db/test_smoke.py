"""Smoke checks: what refuses them, what their jobs are told, and the verdict on every surface."""

import json

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.models import Attempt
from runs.errors import RunRefused, SmokeSnapshot
from runs.management.commands.runs import Command
from runs.models import MissedRow, Run, Snapshot
from runs.operations import advance_run, cancel_run, check_run, plan_branch, register_candidate, submit_run
from runs.operations.branching import Wish
from tests.factories import make_dataset, make_device, make_run, run_document
from tests.playing import STARTED, WORK, claim, end, failure, metrics, reread, save, say

pytestmark = pytest.mark.django_db
SMOKE = {"sliceSize": 4, "maxSteps": 30}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    for name in ("OPTIMIZE_CONTEXT", "AKKA_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(db):
    make_device()
    made = make_run(smoke=SMOKE)
    advance_run(made.pk)
    return reread(made)


@pytest.fixture
def ask(capsys):
    """Run a command line; gives exit status and output."""
    def ask(*argv):
        status = Command().run([str(part) for part in argv])
        return status, capsys.readouterr().out

    return ask


def missed(position, answer="no"):
    return {"type": "missed", "position": position, "prompt": [{"role": "user", "content": f"ticket {position}"}],
            "expected": "yes", "answer": answer, "finish": "stop"}


def judged(verdict, reproduced=4, **changes):
    return {"type": "smoke", "verdict": verdict, "score": reproduced / 4, "threshold": 0.98, "rows": 4, "scored": 4,
            "reproduced": reproduced, "toolAnswers": 0, "memorised": True, "step": 12} | changes


def finish(run, *said):
    """The run's job trains, says this, and is gone; the run comes to its end."""
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), *said)
    end(run, attempt, "finished")
    advance_run(run.pk)
    return reread(run)


@pytest.mark.requirement("R046", "R194", "R195")
def test_a_smoke_check_is_planned_over_its_slice_with_its_own_updates_and_the_rest_of_the_descriptor(run):
    assert run.smoke == {"sliceSize": 4, "maxSteps": 30, "threshold": 0.98}
    plan = WORK.plan(run, claim(run))
    assert plan["smoke"] == {"rows": 4, "threshold": 0.98}
    assert (plan["total_steps"], plan["config"]) == (30, run.config)
    assert WORK.plan(make_run(), Attempt(number=1))["smoke"] is None


@pytest.mark.requirement("R195")
def test_a_dry_run_fills_the_defaults_in_and_estimates_its_updates_and_its_slice(run):
    found = check_run(run_document(smoke={}), actor=LOCAL)
    assert found["valid"]
    assert found["resolved"]["smoke"] == {"sliceSize": 200, "maxSteps": 2000, "threshold": 0.98}
    steps = check_run(run_document(smoke=SMOKE), actor=LOCAL)["estimates"]["steps"]
    assert (steps["value"], steps["note"].startswith("At most")) == (30, True)
    refused = check_run(run_document(smoke={"threshold": 1.01}), actor=LOCAL)
    assert [problem["path"] for problem in refused["problems"]] == ["smoke.threshold"]


@pytest.mark.requirement("R194", "R196")
def test_a_passed_check_completes_without_a_model(run, ask):
    run = finish(run, judged("passed"))
    assert (run.phase, run.model_id, run.smoke["verdict"], run.smoke["reproduced"]) == ("COMPLETED", None, "passed", 4)
    status, out = ask("wait", run.pk, "--exit-status")
    assert (status, "passed: 4 of 4 rows reproduced (100.0%" in out) == (0, True)
    assert "Completed (smoke: passed)" in ask("list")[1]


@pytest.mark.requirement("R196")
@pytest.mark.parametrize("verdict", ["failed", "not_memorised_in_steps", "ungraded"])
def test_a_check_that_was_not_passed_makes_a_wait_for_its_exit_status_fail(run, ask, verdict):
    run = finish(run, missed(2), missed(3, "\x00no"), judged(verdict, 2))
    assert run.phase == "COMPLETED"
    assert ask("wait", run.pk)[0] == 0
    status, out = ask("wait", run.pk, "--exit-status", "-o", "json-compact")
    assert status == 8
    assert json.loads(out.splitlines()[-1])["smoke"]["verdict"] == verdict


@pytest.mark.requirement("R196")
def test_the_rows_that_were_not_reproduced_are_told_by_route_and_command_expected_beside_answer(run, ask):
    run = finish(run, missed(3, "\x00no"), missed(1), judged("failed", 2))
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    found = client.get(f"/v1/training/runs/{run.pk}/smoke").json()
    assert (found["smoke"]["verdict"], found["total"]) == ("failed", 2)
    assert [(row["position"], row["expected"], row["answer"]) for row in found["missed"]] == [
        (1, "yes", "no"), (3, "yes", "\N{REPLACEMENT CHARACTER}no")]
    _, out = ask("smoke", run.pk)
    assert "failed: 2 of 4 rows reproduced" in out
    assert [line.split()[:3] for line in out.splitlines()][-3:-1] == [
        ["1", "yes", "no"], ["3", "yes", "\N{REPLACEMENT CHARACTER}no"]]
    assert ask("smoke", make_run().pk)[0] == 4


def test_a_later_attempts_judgement_replaces_an_earlier_ones_rows(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), missed(0), missed(1))
    end(run, attempt, "lost")
    run = finish(reread(run), missed(1, "maybe"), judged("failed", 3))
    assert list(MissedRow.objects.values_list("position", "attempt", "answer")) == [(1, 2, "maybe")]


@pytest.mark.requirement("R196")
@pytest.mark.parametrize(("code", "verdict"), [("bad_row", "data_error"), ("non_finite_loss", "stopped")])
def test_a_check_whose_job_fails_says_whether_its_rows_were_to_blame(run, ask, code, verdict):
    attempt = claim(run)
    say(run, attempt, STARTED, failure(code))
    end(run, attempt, "failed")
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.smoke["verdict"]) == ("FAILED", verdict)
    assert ask("wait", run.pk, "--exit-status")[0] == 5


def test_a_cancelled_check_was_stopped(run, ask):
    cancel_run(run, actor=LOCAL)
    advance_run(run.pk)
    assert (reread(run).phase, reread(run).smoke["verdict"]) == ("CANCELLED", "stopped")
    assert ask("wait", run.pk, "--exit-status")[0] == 6


@pytest.mark.requirement("R194")
def test_a_job_that_ends_without_a_verdict_has_failed(run):
    run = finish(run)
    assert (run.phase, run.failure_code) == ("FAILED", "verdict_missing")


def test_nothing_is_made_of_a_checks_saves_and_it_is_no_earlier_run_of_the_recipe(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1))
    snapshot = Snapshot.objects.get()
    with pytest.raises(SmokeSnapshot):
        register_candidate(snapshot, actor=LOCAL)
    problems = plan_branch(Wish(snapshot, 5), actor=LOCAL).problems
    assert "smoke_snapshot" in {problem.code for problem in problems}
    assert check_run(run_document(), actor=LOCAL)["previousRuns"] == []


@pytest.mark.requirement("R046")
def test_rows_that_hold_no_text_to_ask_for_are_refused(run):
    pair = {"prompt": [{"role": "user", "content": "a"}], "chosen": {"role": "assistant", "content": "b"},
            "rejected": {"role": "assistant", "content": "c"}}
    make_dataset("triage/pairs", (json.dumps(pair) + "\n").encode())
    document = run_document(config={"dataset": "triage/pairs", "method": "dpo"}, smoke=SMOKE)
    with pytest.raises(RunRefused) as refused:
        submit_run(document, actor=LOCAL)
    assert "smoke_not_for_method" in {problem.code for problem in refused.value.problems}
    assert Run.objects.count() == 1
