"""Runs whose reward has a judge: it stands ready before their devices are claimed, and goes when they rest or end."""

import json

import pytest

from endpoints.models import Judge
from endpoints.operations.judges import advance_judges, socket_of
from endpoints.queries import list_judges
from endpoints.render import state_of
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.conf import home
from optimize_site.kernel.models import Device
from optimize_site.kernel.work import attempt_folder
from runs.errors import RunRefused
from runs.models import Run
from runs.operations import cancel_run, pause_run, resume_run
from runs.operations.advance import advance_run
from runs.operations.check import check_run
from runs.operations.judging import wants_judges
from runs.pages import estimate_rows as page_rows
from runs.reinforcement_plan import scorer_part
from runs.render import run_document as run_document_of
from runs.text import estimate_rows as text_rows
from runs.text import state_rows
from runs.views.naming import share
from tests.factories import (
    TINY,
    claim_job,
    end_job,
    make_base_model,
    make_device,
    make_run,
    make_workload,
    put_weights,
    run_document,
    tell_job,
)
from tests.playing import phases_of

pytestmark = pytest.mark.django_db
STARTED, JUDGING = {"type": "started", "pid": 1, "versions": {}}, {"type": "stage", "name": "judging", "done": 0}


REWARD = {"method": "grpo", "reward": {"terms": [
    {"kind": "grader", "grader": "exact", "weight": 0.5},
    {"kind": "model", "model": TINY, "instructions": "Be strict."},
    {"kind": "grader", "grader": f"model:{TINY}", "weight": 2}]}}


@pytest.fixture
def base():
    make_device()
    return put_weights(make_base_model())


@pytest.fixture
def run(base):
    """A run whose reward has two terms that one judge scores, told differently."""
    return advance(make_run(config=REWARD))


def advance(run):
    """A pass of the control worker over the run and its judges, and the beginning of the next."""
    advance_run(run.pk)
    advance_judges()
    advance_run(run.pk)
    run.refresh_from_db()
    return run


def answering(run):
    """The run's judge, started and ready; the attempt that holds it."""
    attempt = claim_job()
    assert attempt.holder_kind == "judge"
    tell_job(attempt, STARTED, JUDGING)
    advance(run)
    return attempt


def test_a_run_that_is_rewarded_by_its_workloads_judge_has_it_told_what_the_workload_states(base):
    make_workload(grader=f"model:{TINY}", instructions="Be kind.")
    terms = [{"kind": "grader"}, {"kind": "grader", "grader": f"model:{TINY}", "instructions": "Be strict."},
             {"kind": "model", "model": TINY}]
    run = make_run(config={"method": "grpo", "reward": {"terms": terms}})
    judges = [named["judge"] for named in run.references["reward"]]
    assert [(judge["instructions"], judge["instructionsSource"]) for judge in judges[:2]] == [
        ("Be kind.", "workload"), ("Be strict.", "stated")]
    assert judges[2]["instructionsSource"] == "built-in", "a term of its own is no grader of the workload"
    assert [term["instructions"] for term in run.config["reward"]["terms"]][:2] == ["Be kind.", "Be strict."]
    assert "told (workload): Be kind." in str(state_rows(run_document_of(run)))


@pytest.mark.requirement("R185")
def test_a_judge_is_started_and_answers_before_the_run_claims_a_device(run):
    assert run.phase == "DEPLOYING_GRADER"
    assert "waits for a free slot" in advance(run).wait_reason
    attempt = claim_job()
    assert advance(run).phase == "AWAITING_GRADER"
    assert claim_job(slot=1) is None
    tell_job(attempt, STARTED, JUDGING)
    assert advance(run).phase == "AWAITING_CAPACITY"
    assert claim_job(slot=1).holder_id == run.pk
    assert phases_of(run)[-4:] == ["DEPLOYING_GRADER", "AWAITING_GRADER", "AWAITING_CAPACITY", "STARTING_JOB"]


FIGURES = {"type": "metrics", "step": 1, "values": {"loss": 1.0, "reward": 0.5}}
TOKENISING = {"type": "stage", "name": "tokenising", "done": 3, "total": 8}


@pytest.mark.requirement("R182")
def test_a_rewarded_run_goes_from_queued_to_training_whatever_its_job_tells_before_its_first_figures(run):
    answering(run)
    attempt = claim_job(slot=1)
    tell_job(attempt, STARTED, TOKENISING)
    run.refresh_from_db()
    assert (run.phase, run.stage["name"], share(run)) == ("QUEUED", "tokenising", 3 / 8)
    tell_job(attempt, FIGURES)
    assert phases_of(run)[-2:] == ["QUEUED", "TRAINING"]


@pytest.mark.requirement("R182", "R286")
def test_a_rewarded_run_that_is_resumed_prepares_until_its_first_step(run):
    answering(run)
    attempt = claim_job(slot=1)
    tell_job(attempt, STARTED, FIGURES)
    end_job(attempt, "lost")
    tell_job(claim_job(slot=1), STARTED, TOKENISING, FIGURES)
    assert phases_of(run)[-3:] == ["QUEUED", "PREPARING", "TRAINING"]


def test_a_run_waits_where_its_judge_was_lost_and_goes_on_when_it_is_back(run):
    judge = answering(run)
    end_job(judge, "lost")
    again = claim_job(slot=1)
    assert again.holder_kind == "judge"
    assert claim_job(slot=0) is None
    tell_job(again, STARTED, JUDGING)
    assert claim_job(slot=0).holder_id == run.pk


@pytest.mark.parametrize("phase", ["DEPLOYING_GRADER", "AWAITING_CAPACITY"])
def test_a_run_whose_judge_fails_for_good_says_why_before_it_costs_a_device(run, phase):
    attempt = answering(run) if phase == "AWAITING_CAPACITY" else claim_job()
    tell_job(attempt, {"type": "failure", "code": "base_model_missing", "reason": "It is gone.", "hint": "Select it."})
    end_job(attempt, "failed")
    advance(run)
    assert (run.phase, run.failure_code) == ("FAILED", "base_model_missing")
    assert run.failure_reason == "The judge of the reward failed: It is gone."


@pytest.mark.requirement("R183", "R185")
def test_a_judge_is_given_back_when_its_run_pauses_and_held_again_when_it_goes_on(run):
    judge = answering(run)
    pause_run(run, checkpoint="save", actor=LOCAL)
    assert not wants_judges(run.pk)
    end_job(judge, "stopped")
    assert Judge.objects.get().phase == "RELEASED"
    assert [state_of(row) for row in list_judges()] == ["resting"]
    resume_run(run, actor=LOCAL)
    assert advance(run).phase == "DEPLOYING_GRADER"
    answering(run)
    assert run.phase == "AWAITING_CAPACITY"
    assert [state_of(row) for row in list_judges()] == ["answering", "released"]


def test_a_cancelled_run_lets_its_waiting_judge_go(run):
    cancel_run(run, actor=LOCAL)
    advance(run)
    assert (run.phase, Judge.objects.get().phase) == ("CANCELLED", "RELEASED")


def test_a_run_fails_where_the_box_lost_the_room_for_its_judge(run):
    pause_run(run, checkpoint="save", actor=LOCAL)
    Device.objects.update(slots=1)
    resume_run(run, actor=LOCAL)
    run.refresh_from_db()
    assert (run.phase, run.failure_code) == ("FAILED", "no_room_for_judge")


@pytest.mark.requirement("R029", "R185")
def test_a_run_that_needs_more_slots_for_judges_than_the_box_has_is_refused_before_it_costs_anything(base):
    Device.objects.update(slots=1)
    with pytest.raises(RunRefused) as refused:
        make_run(config=REWARD)
    (problem,) = refused.value.problems
    assert (problem.path, problem.code) == ("config.reward.terms", "no_room_for_judge")
    assert "1 judge beside the 1 cpu device of the run" in problem.message
    assert not Run.objects.exists()


@pytest.mark.requirement("R029")
def test_each_term_of_a_judge_is_asked_at_its_socket_under_the_terms_own_instructions(run):
    answering(run)
    attempt = claim_job(slot=1)
    spec = scorer_part(run, attempt_folder(attempt.pk))["spec"]
    socket = str(socket_of(Judge.objects.get()))
    assert [term.get("grader") for term in spec["terms"]] == ["exact", None, None]
    assert [(term["name"], term["judge"]["socket"], term["judge"]["source"], term["judge"]["seconds"])
            for term in spec["terms"][1:]] == [("judge", socket, "stated", 300.0),
                                               ("judge-2", socket, "built-in", 300.0)]


def test_a_run_shows_what_its_judges_are_told_and_why(run):
    shown = [words for name, words in state_rows(run_document_of(run)) if name == "Judge"]
    assert [words.split(":")[1].strip() for words in shown] == ["v1, told (stated)", "v1, told (built-in)"]
    assert shown[0].endswith("told (stated): Be strict.")


def test_a_judges_memory_is_predicted_with_the_runs_and_both_must_fit(base):
    """The judge is the same model: on processors both are held by the machine, whose memory they must find."""
    (home() / base.folder / "config.json").write_text(json.dumps(
        {"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128,
         "vocab_size": 1000}))
    base.facts = {"contextLength": 4096, "parameters": 10_000_000}
    base.save()
    found = check_run(run_document(config=REWARD), actor=LOCAL)
    predicted = found["estimates"]["memory"]["host"]
    (judge,) = predicted["judges"]["models"]
    assert (judge["model"], judge["parts"]["weights"]) == (base.version.reference, 40_000_000)
    assert predicted["judges"]["together"] == predicted["bytes"] + judge["bytes"]
    assert any(label == "Judges" and judge["model"] in words for label, words in text_rows(found["estimates"]))
    (shown,) = [row for row in page_rows(found["estimates"]) if row["label"] == "Judge"]
    assert [name for name, _ in shown["parts"]] == ["weights", "cache", "libraries"]
    kept = run_document_of(make_run(config=REWARD))["memory"]["predicted"]
    assert kept["judges"]["together"] == kept["bytes"] + judge["bytes"]
    Device.objects.update(host_memory_bytes=900 << 20)
    refused = check_run(run_document(config=REWARD), actor=LOCAL)
    assert [(problem["path"], problem["code"]) for problem in refused["problems"]] == [
        ("config.reward.terms", "no_memory_for_judge")]
    assert "of the run before anything is read, and this machine has 900.0 MiB." in refused["problems"][0]["message"]
    with pytest.raises(RunRefused):
        make_run(config=REWARD)
