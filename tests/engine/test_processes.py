"""Jobs as processes: the shepherd's records, the prepared process, and a kill at any moment."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jobs
import pytest
import tiny
from conftest import CHILD_ROOT
from optimize_child import shepherd

REPOSITORY = CHILD_ROOT.parents[1]
sys.path.append(str(REPOSITORY))

# The server's launcher needs nothing of the server's environment.
from gpu_worker import launch, processes  # noqa: E402
from optimize_site.processes import Identity  # noqa: E402


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A state folder with a prepared process that is ready."""
    home = tmp_path_factory.mktemp("home")
    launch.start_zygote(home / "run")
    try:
        jobs.wait_for(lambda: launch.zygote_ready(home / "run"), seconds=240)
        yield home
    finally:
        launch.retire_zygote(home / "run")


@pytest.fixture
def attempt(home, request):
    """A new attempt's folder in the state folder."""
    return home / "attempts" / request.node.name.replace("[", "-").strip("]")


@pytest.fixture(scope="module")
def plan(base_model, tmp_path_factory):
    rows = tmp_path_factory.mktemp("rows") / "train.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in tiny.ticket_rows(10)))
    return tiny.sft_plan(
        base_model, [rows], **{"execution.saveEvery": 1, "config.hyperparams.training.epochs": 2}
    )


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """The adapter of the undisturbed job."""
    return jobs.adapter_bytes(jobs.run(tmp_path_factory.mktemp("whole") / "attempt", plan))


def ended(attempt: Path) -> dict:
    """What exit.json says, once it is there."""
    jobs.wait_for((attempt / "exit.json").exists)
    return json.loads((attempt / "exit.json").read_text())


def test_a_prepared_job_is_the_plain_job_to_the_last_bit(home, attempt, plan, tmp_path):
    jobs.prepare(attempt, plan)
    launch.start_job(attempt, env={})
    assert ended(attempt)["code"] == 0
    assert tiny.events_of(attempt, "started")[0]["prepared"] is True
    plain = jobs.prepare(tmp_path / "attempts" / "plain", plan)
    os.environ["OPTIMIZE_ZYGOTE"] = "0"
    try:
        launch.start_job(plain, env={"OMP_NUM_THREADS": "1"})
    finally:
        del os.environ["OPTIMIZE_ZYGOTE"]
    assert ended(plain)["code"] == 0
    assert tiny.events_of(plain, "started")[0]["prepared"] is False
    assert jobs.adapter_bytes(attempt) == jobs.adapter_bytes(plain)
    assert jobs.metrics(attempt, "loss") == jobs.metrics(plain, "loss")


@pytest.mark.parametrize("moment", ["started", "tokenising", "metrics", "snapshot", "saving"])
def test_a_job_killed_at_any_moment_is_made_good_by_the_next_attempt(home, attempt, plan, whole, moment, tmp_path):
    jobs.prepare(attempt, plan)
    launch.start_job(attempt, env={})
    log = attempt / "events.jsonl"
    jobs.wait_for(lambda: log.exists() and f'"{moment}"' in log.read_text() and (attempt / "pid.json").exists())
    jobs.kill_job(attempt)
    record = ended(attempt)
    if record["signal"] is not None:
        assert (record["signal"], record["code"], record["oom_kill"]) == (signal.SIGKILL, None, False)
    second = jobs.run(tmp_path / "second", {**plan, "resume": jobs.newest_snapshot(attempt), "first_attempt": False})
    assert jobs.adapter_bytes(second) == whole


def test_a_failed_job_leaves_its_reason_its_code_and_its_log(home, attempt, plan):
    jobs.prepare(attempt, {**plan, "base_model": {**plan["base_model"], "folder": "/nowhere"}})
    launch.start_job(attempt, env={})
    assert ended(attempt)["code"] == 1
    assert jobs.failure(attempt)["code"] == "base_model_missing"
    assert "Traceback" in (attempt / "stderr.log").read_text()


def test_both_processes_are_recorded_with_their_start_times(home, attempt, plan):
    jobs.prepare(attempt, plan)
    pid = launch.start_job(attempt, env={})
    shepherd, job = jobs.wait_for(lambda: processes.recorded(attempt))
    assert shepherd.pid == pid
    assert job.pid != pid
    ended(attempt)
    jobs.wait_for(lambda: not job.is_alive())
    assert not Identity(os.getpid(), 1).is_alive()
    assert Identity.of(os.getpid()).is_alive()


def hung(_attempt):
    """The start of a job that hangs before its first event."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    return pid


def test_a_job_that_never_speaks_is_killed_and_started_plainly(attempt, plan):
    jobs.prepare(attempt, plan)
    pid = os.fork()
    if pid == 0:
        os.environ |= {"OPTIMIZE_PREPARED": "1", "PYTHONPATH": str(CHILD_ROOT)}
        shepherd.tend(attempt, hung, watchdog_seconds=0.2)
        os._exit(0)
    os.waitpid(pid, 0)
    assert tiny.events_of(attempt, "started")[0]["prepared"] is False
    assert tiny.events_of(attempt, "finished")


def test_the_socket_is_for_its_owner_alone(home):
    assert (home / "run" / "zygote.sock").stat().st_mode & 0o777 == 0o600


def test_the_prepared_process_survives_a_request_that_makes_no_sense(home):
    for nonsense in ({"attempt_dir": "/nowhere/at/all"}, {"attempt_dir": 7}, [1, 2]):
        assert "error" in launch._ask(home / "run", nonsense)
    assert launch.ask_zygote(home / "run", {"attempt_dir": "/nowhere/at/all"}) is None
    assert launch.zygote_ready(home / "run")


def test_the_prepared_process_runs_no_thread_that_a_fork_would_lose(home):
    assert launch._ask(home / "run", {"hello": True})["threads"] == 1


def test_a_prepared_process_of_older_code_is_retired(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(launch, "_ask", lambda folder, request: asked.append(request) or {"version": "older"})
    assert not launch.zygote_ready(tmp_path)
    assert {"retire": True} in asked


def test_the_prepared_process_leaves_when_it_is_idle(tmp_path):
    code = (
        "import sys; from pathlib import Path; from optimize_child import zygote; "
        "zygote.import_libraries = lambda: None; sys.exit(zygote.main(Path(sys.argv[1])))"
    )
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path / "zygote.sock")],
        env={**os.environ, "PYTHONPATH": str(CHILD_ROOT), "OPTIMIZE_ZYGOTE_IDLE_SECONDS": "0.3"},
        timeout=60,
        check=False,
    )
    assert process.returncode == 0
    assert time.monotonic() - started > 0.3
    assert not (tmp_path / "zygote.sock").exists()


def test_the_shepherd_knows_nothing_but_the_standard_library():
    code = (
        "import sys; import optimize_child.shepherd; print([m for m in ('torch', 'numpy', 'trl') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(CHILD_ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == "[]"
