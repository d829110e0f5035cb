"""Evaluations whose job is lost, fails, is cancelled or retried."""

import pytest

from evaluations import phases
from evaluations.models import Evaluation
from evaluations.operations.evaluations import cancel_evaluation, retry_evaluation
from evaluations.work import EvaluationWork
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import Conflict
from registry.models import BaseModel
from tests.db.evaluations.evaluating import ANSWERS, FINISHED, said, start
from tests.factories import claim_job, end_job, run_job, tell_job

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("R192")
def test_a_lost_job_goes_on_where_it_was(adapter):
    row = start()
    run_job(*ANSWERS[:2], outcome="lost")
    row.refresh_from_db()
    assert (row.phase, row.num_answered) == (phases.AWAITING_CAPACITY, 2)
    attempt = claim_job()
    assert EvaluationWork().plan(row, attempt)["skip_positions"] == [0, 1]
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, ANSWERS[1], *ANSWERS[2:], FINISHED)
    end_job(attempt)
    row.refresh_from_db()
    assert (row.phase, row.num_answered, row.report["rows"]) == (phases.COMPLETED, 4, 4)


def test_a_job_that_keeps_dying_fails_the_evaluation(adapter, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_MAX_ATTEMPTS", "2")
    row = start()
    run_job(outcome="lost")
    run_job(outcome="lost")
    row.refresh_from_db()
    assert (row.phase, row.failure_code) == (phases.FAILED, "job_lost")


def test_a_failure_says_why_and_what_to_change(adapter):
    row = start()
    run_job(ANSWERS[0], {"type": "failure", "code": "out_of_host_memory", "reason": "No memory.", "hint": "Add some.",
                         "evidence": {}}, outcome="failed")
    row.refresh_from_db()
    assert (row.phase, row.failure_code, row.failure_reason, row.failure_hint) == (
        phases.FAILED, "out_of_host_memory", "No memory.", "Add some.")
    assert row.ended_at is not None


def test_a_job_that_ends_without_all_answers_is_no_success(adapter):
    row = start()
    run_job(*ANSWERS[:3], FINISHED)
    row.refresh_from_db()
    assert (row.phase, row.failure_code) == (phases.FAILED, "answers_missing")


def test_a_row_that_could_not_be_asked_is_unscored(adapter):
    row = start()
    run_job(*ANSWERS[:3], said(3, None, finish="prompt_too_long"), FINISHED)
    row.refresh_from_db()
    assert row.report["unscored"]["causes"] == {"prompt_too_long": 1}


def test_an_answer_cut_at_the_ceiling_says_so(adapter):
    row = start()
    run_job(said(0, '{"queue": "bil', finish="length"), *ANSWERS[1:], FINISHED)
    assert "token ceiling" in row.predictions.get(position=0).explanation


@pytest.mark.requirement("R342")
def test_a_retry_answers_what_is_missing(adapter):
    row = start()
    run_job(*ANSWERS[:3], {"type": "failure", "code": "unexpected", "reason": "x", "hint": "", "evidence": {}},
            outcome="failed")
    row = retry_evaluation(row, actor=LOCAL)
    assert (row.phase, row.num_answered, row.failure_code, row.ended_at) == (phases.AWAITING_CAPACITY, 3, "", None)
    attempt = claim_job()
    assert EvaluationWork().plan(row, attempt)["skip_positions"] == [0, 1, 2]
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, ANSWERS[3], FINISHED)
    end_job(attempt)
    row.refresh_from_db()
    assert row.phase == phases.COMPLETED


@pytest.mark.requirement("R342")
def test_a_retry_keeps_only_answers_of_the_commit_it_resolves_to(adapter):
    row = start()
    run_job(*ANSWERS, FINISHED)
    with pytest.raises(Conflict) as refused:
        retry_evaluation(row, actor=LOCAL)
    assert refused.value.code == "nothing_to_retry"
    BaseModel.objects.update(revision="rev-2")
    row = retry_evaluation(row, actor=LOCAL)
    assert (row.phase, row.num_answered, row.base_revision, row.report) == (phases.AWAITING_CAPACITY, 0, "rev-2", None)


def test_a_retry_waits_for_the_end(adapter):
    with pytest.raises(Conflict):
        retry_evaluation(start(), actor=LOCAL)


def test_cancelling_before_and_during_the_job(adapter):
    waiting, running = start(), start()
    Evaluation.objects.filter(pk=running.pk).update(queued_at="2020-01-01T00:00:00Z")
    attempt = claim_job()
    assert attempt.holder_id == running.pk
    assert cancel_evaluation(waiting, actor=LOCAL).phase == phases.CANCELLED
    assert cancel_evaluation(waiting, actor=LOCAL).phase == phases.CANCELLED
    asked = cancel_evaluation(running, actor=LOCAL)
    assert asked.phase == phases.STARTING_JOB and EvaluationWork().ask(asked) == "stop"
    assert cancel_evaluation(running, actor=LOCAL).phase == phases.STARTING_JOB
    end_job(attempt, "stopped")
    running.refresh_from_db()
    assert (running.phase, running.lease_token) == (phases.CANCELLED, None)


def test_a_job_that_finished_before_it_saw_the_cancel_completes(adapter):
    row = start()
    attempt = claim_job()
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, *ANSWERS, FINISHED)
    cancel_evaluation(row, actor=LOCAL)
    end_job(attempt)
    row.refresh_from_db()
    assert row.phase == phases.COMPLETED
    with pytest.raises(Conflict):
        cancel_evaluation(row, actor=LOCAL)
