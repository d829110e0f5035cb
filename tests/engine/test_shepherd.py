"""What the shepherd writes down, tried with jobs of a few lines."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from optimize_child import shepherd


def child(code):
    """A start function whose job runs `code` in a fork."""

    def start(_attempt: Path) -> int:
        pid = os.fork()
        if pid == 0:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            try:
                code()
            finally:
                os._exit(0)
        return pid

    return start


@pytest.fixture(autouse=True)
def signals_restored():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def record(attempt: Path) -> dict:
    body = json.loads((attempt / "exit.json").read_text())
    assert abs(body.pop("ended_at") - time.time()) < 60
    return body


def test_an_exit_status_is_recorded(tmp_path):
    shepherd.tend(tmp_path, child(lambda: os._exit(3)))
    assert record(tmp_path) == {"code": 3, "signal": None, "oom_kill": False}


def test_a_killing_signal_is_recorded(tmp_path):
    shepherd.tend(tmp_path, child(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert record(tmp_path) == {"code": None, "signal": 9, "oom_kill": False}


def test_a_kill_beside_a_rising_count_of_memory_kills_is_one(tmp_path, monkeypatch):
    counts = iter([4, 5])
    monkeypatch.setattr(shepherd, "oom_kills", lambda: next(counts))
    shepherd.tend(tmp_path, child(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert record(tmp_path)["oom_kill"] is True


def test_the_count_of_memory_kills_is_read_from_the_group_or_the_machine(tmp_path, monkeypatch):
    counter = tmp_path / "memory.events"
    counter.write_text("low 0\noom 7\noom_kill 3\n")
    monkeypatch.setattr(
        shepherd, "_group_counters", lambda: [(tmp_path / "missing", "oom_kill"), (counter, "oom_kill")]
    )
    assert shepherd.oom_kills() == 3


def test_a_termination_meant_for_the_shepherd_reaches_the_job(tmp_path):
    pid = os.fork()
    if pid == 0:
        shepherd.tend(tmp_path, child(lambda: time.sleep(60)))
        os._exit(0)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    assert record(tmp_path)["signal"] == signal.SIGTERM


def test_a_process_is_known_by_number_and_start_time():
    started = shepherd.process_started(os.getpid())
    assert started == shepherd.process_started(os.getpid())
    assert shepherd.process_started(2**22 + 1) is None


def test_the_watchdog_lets_a_job_that_speaks_live(tmp_path, monkeypatch):
    monkeypatch.setattr(shepherd, "start_plainly", lambda _attempt: pytest.fail("it spoke"))

    def speak():
        (tmp_path / "events.jsonl").write_text("{}\n")
        time.sleep(0.3)

    shepherd.tend(tmp_path, child(speak), watchdog_seconds=5)
    assert record(tmp_path)["code"] == 0


def test_the_watchdog_replaces_a_silent_job(tmp_path, monkeypatch):
    monkeypatch.setattr(shepherd, "start_plainly", child(lambda: os._exit(7)))
    shepherd.tend(tmp_path, child(lambda: time.sleep(60)), watchdog_seconds=0.2)
    assert record(tmp_path)["code"] == 7


def test_a_job_that_dies_at_once_is_not_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(shepherd, "start_plainly", lambda _attempt: pytest.fail("it ended by itself"))
    shepherd.tend(tmp_path, child(lambda: os._exit(1)), watchdog_seconds=5)
    assert record(tmp_path)["code"] == 1
