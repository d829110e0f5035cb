"""Jobs that stop getting on: what their threads were at is recorded, they are ended, and the run says so everywhere."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.urls import reverse

from endpoints.models import Judge
from endpoints.queries import count_judged
from gpu_worker import drive, processes, stalls
from optimize_site.kernel import accounts, clock
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import attempt_folder
from optimize_site.processes import start_time
from runs.management.commands import runs as command
from runs.operations import advance_run
from runs.render import run_document
from tests.factories import make_adapter, make_base_model, make_device, make_run, make_workload, put_weights
from tests.playing import claim, reread

pytestmark = pytest.mark.django_db
JOB = Path(__file__).resolve().parents[1] / "stalled_job.py"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_STALLED_SECONDS", "0.2")
    monkeypatch.setattr(drive, "WATCH_SECONDS", 0.02)
    make_device()


@pytest.fixture
def started():
    """Starts a job that hangs; whatever a test leaves of it is killed."""
    jobs = []

    def start(folder, *, env):
        jobs.append(subprocess.Popen([sys.executable, str(JOB), str(folder)], start_new_session=True))
        return jobs[-1].pid

    yield start
    for job in jobs:
        job.kill()
        job.wait()


def stall(run, started):
    """Drive an attempt of the run whose job hangs, to its end."""
    drive.Driver(claim(run), should_stop=lambda: False, starter=started).drive()
    return reread(run)


def waiting():
    put_weights(make_base_model())
    run = make_run()
    advance_run(run.pk)
    return reread(run)


@pytest.mark.requirement("R361")
def test_a_stalled_job_is_ended_and_its_run_goes_on_with_what_its_threads_were_at_on_record(started):
    run = stall(waiting(), started)
    attempt = Attempt.objects.get()
    assert (run.phase, attempt.outcome) == ("AWAITING_CAPACITY", "lost")
    assert not processes.any_alive(attempt_folder(attempt.pk))
    found = run_document(run)["attempts"][0]["exit"]["stalled"]
    assert "wait_for_what_never_comes" in found["stacks"] and "wait_beside_it" in found["stacks"]
    assert found["memory"]["residentBytes"] > 0
    assert run.warnings[-1]["code"] == "job_stalled"
    assert "gave no sign of getting on for 0.2 seconds and was ended at update 0" in run.warnings[-1]["message"]


@pytest.mark.requirement("R361")
def test_a_run_whose_job_keeps_stalling_fails_and_every_surface_shows_the_stacks(started, monkeypatch, client, capsys):
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_MAX_ATTEMPTS", "1")
    run = stall(waiting(), started)
    advance_run(run.pk)
    document = run_document(reread(run))
    assert (document["phase"], document["failureCode"]) == ("FAILED", "job_stalled")
    assert "1 in a row were lost without a new save" in document["failureReason"]
    assert "trainer.jobs.stalled-seconds" in document["failureHint"]
    assert "wait_for_what_never_comes" in document["failureEvidence"]["stalled"]["stacks"]
    command.Command().run(["get", run.pk])
    said = capsys.readouterr().out
    assert "job_stalled" in said and "wait_for_what_never_comes" in said
    client.force_login(accounts.create_user("a-viewer", "viewer", actor=LOCAL)[0])
    page = client.get(reverse("runs:detail", args=[run.pk])).content.decode()
    assert "What its threads were at" in page and "wait_for_what_never_comes" in page


@pytest.fixture
def hanging(tmp_path, started):
    """The folder of a job that hangs."""
    process = started(tmp_path, env={})
    (tmp_path / "pid.json").write_text(json.dumps({"job": {"pid": process, "started": start_time(process)}}))
    return tmp_path


@pytest.mark.requirement("R361")
def test_where_stacks_cannot_be_read_the_reason_is_recorded_and_what_of_the_gpu_is_taken(hanging, monkeypatch):
    monkeypatch.setattr(stalls.sys, "executable", "/nowhere/python")
    taken = SimpleNamespace(memory_used_bytes=3, memory_total_bytes=9)
    monkeypatch.setattr(stalls.devices, "sample", {"GPU-1": taken}.__getitem__)
    found = stalls.record_stall(hanging, make_device("GPU-1", kind="gpu"), limit=60)
    assert "py-spy" in found["noStacks"] and "stacks" not in found
    assert (found["memory"]["deviceUsedBytes"], found["memory"]["deviceBytes"]) == (3, 9)
    assert stalls.recorded_stall(hanging) == found


def test_a_job_that_was_stopped_by_a_signal_is_seen_and_ended(hanging, monkeypatch):
    monkeypatch.setattr(processes, "TERM_SECONDS", 0.1)
    job = processes.job_of(hanging)
    job.send(signal.SIGSTOP)
    watch = stalls.StallWatch(hanging, limit=60.0, device_kind="gpu")
    assert [watch.is_stalled(now) for now in (0.0, 59.0, 60.0)] == [False, False, True]
    processes.end(hanging)
    assert not job.is_alive()


def test_an_event_and_on_a_processor_computing_are_signs_of_getting_on(tmp_path, monkeypatch):
    computed = iter([0.0, 10.0, 10.0, 10.0])
    monkeypatch.setattr(stalls.StallWatch, "_seconds_computed", lambda _: next(computed))
    watch = stalls.StallWatch(tmp_path, limit=60.0, device_kind="cpu")
    assert not watch.is_stalled(0.0)
    assert not watch.is_stalled(60.0)  # it computed
    (tmp_path / "events.jsonl").write_text("{}\n")
    assert not watch.is_stalled(119.0)  # it spoke
    assert watch.is_stalled(179.0)


def test_a_worker_that_was_stopped_itself_does_not_call_its_job_stalled(tmp_path):
    watch = stalls.StallWatch(tmp_path, limit=60.0, device_kind="gpu")
    assert [watch.is_stalled(now) for now in (0.0, 7200.0, 7259.0, 7260.0)] == [False, False, False, True]


@pytest.mark.requirement("R361")
def test_a_job_that_waits_for_judges_gets_on_as_long_as_they_answer(tmp_path):
    answered = 0
    watch = stalls.StallWatch(tmp_path, limit=1800, device_kind="gpu", elsewhere=lambda: answered)
    for now in range(10, 7200, 60):
        answered += 1
        assert not watch.is_stalled(now)
    last = now
    silent = [later for later in range(last, 12_000, 60) if watch.is_stalled(later)]
    assert last + 1800 <= silent[0] <= last + 1800 + 1800 // stalls.LOOKS + 60


@pytest.mark.requirement("R361")
def test_only_the_answers_of_the_judges_that_are_held_for_a_job_count_for_it():
    model = make_adapter(make_workload(), make_base_model())
    for holder, done, ended_at in (("a", 3, None), ("a", 4, clock.now()), ("b", 5, None)):
        Judge.objects.create(holder_kind="run", holder_id=holder, model=model, profile="cpu", phase="READY",
                             ended_at=ended_at, stage={"name": "judging", "done": done})
    assert (count_judged("run", "a"), count_judged("evaluation", "a")) == (3, 0)
