"""Why a run failed, in one sentence with a code and what to do: steps that keep failing, and what cannot be reached."""

import inspect
import json

import pytest
from django.db import OperationalError

from gpu_worker import drive
from optimize_site.kernel.conf import home
from runs.operations import advance, advance_run, failing_steps
from runs.operations.ending import fail_run
from runs.outlook import outlook_of
from runs.render import run_document
from tests.factories import make_base_model, make_device, make_run, put_weights
from tests.playing import STARTED, claim, end, metrics, reread, save, say

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make_device()


def breaking(error):
    def step(run):
        raise error

    return step


@pytest.mark.requirement("R359")
def test_a_run_whose_step_fails_each_time_fails_with_what_could_not_be_done(monkeypatch):
    run = make_run()
    monkeypatch.setitem(advance.STEPS, "RESOLVING_DATASET", breaking(ValueError("a shard has no size")))
    for _ in range(failing_steps.TRIES - 1):
        advance.advance_all()
    assert reread(run).phase == "RESOLVING_DATASET"
    advance.advance_all()
    advance.advance_all()
    document = run_document(reread(run))
    assert (document["phase"], document["failureCode"]) == ("FAILED", "step_failed")
    assert document["failureReason"] == \
        "This run's dataset could not be read, in 10 tries: ValueError: a shard has no size"
    assert document["failureHint"].startswith("Start it again")
    assert document["failureEvidence"] == {"phase": "RESOLVING_DATASET", "error": "ValueError: a shard has no size"}


@pytest.mark.requirement("R359")
def test_a_run_whose_job_can_never_be_started_says_so():
    put_weights(make_base_model())
    run = make_run()
    advance_run(run.pk)

    def refuse(folder, *, env):
        raise OSError("no such interpreter")

    for _ in range(2):
        drive.Driver(claim(reread(run)), should_stop=lambda: False, starter=refuse).drive()
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.failure_code) == ("FAILED", "job_not_started")
    assert run.failure_reason == "This run's job could not be started: no such interpreter"


@pytest.mark.requirement("R360")
def test_a_database_that_does_not_answer_is_no_failed_step_of_a_run(monkeypatch):
    run = make_run()
    monkeypatch.setitem(advance.STEPS, "RESOLVING_DATASET", breaking(OperationalError("server closed the connection")))
    with pytest.raises(OperationalError):
        advance.advance_all()
    assert not run_document(reread(run))["failureCode"]


def write_worker(state):
    """The supervisor's note on the worker of the processor."""
    services = [{"name": "device/cpu", "state": state, "lastError": "It ended with status 1."}]
    home().mkdir(parents=True, exist_ok=True)
    (home() / "status.json").write_text(json.dumps({"services": services}))


@pytest.mark.requirement("R360")
def test_a_run_that_waits_for_devices_whose_workers_cannot_be_reached_says_so():
    run = make_run()
    advance_run(run.pk)
    write_worker("failing")
    said = "The device's worker cannot be reached while this run waits for its devices: device/cpu is failing. " \
        "It ended with status 1."
    assert outlook_of(reread(run)).wait_reason == said
    write_worker("ready")
    assert outlook_of(reread(run)).wait_reason == "0 of 2 slots of cpu are held."


@pytest.mark.requirement("R359")
def test_a_job_that_finished_without_its_adapter_fails_with_what_to_do_and_which_saves_there_are():
    run = make_run()
    advance_run(run.pk)
    attempt = claim(reread(run))
    say(run, attempt, STARTED, metrics(1), save(attempt, 1))
    end(run, attempt, "finished")
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.failure_code) == ("FAILED", "adapter_missing")
    assert f"runs log {run.pk[:12]}" in run.failure_hint
    assert run.failure_evidence == {"saves": [{"step": 1, "isFinal": False}]}


@pytest.mark.requirement("R359")
def test_no_run_fails_without_what_to_do_and_what_it_is_known_by():
    told = inspect.signature(fail_run).parameters
    assert {told[name].default for name in ("hint", "evidence")} == {inspect.Parameter.empty}
