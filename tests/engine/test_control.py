"""The control file: when a job leaves."""

import json
import os
import time

import pytest
from optimize_child.control import Control


def write(path, **changes):
    body = {"attempt": "a", "token": 1, "seen_at": time.time(), "ask": "", **changes}
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(body))
    beside.replace(path)


def test_a_job_without_a_control_file_goes_on(tmp_path):
    assert Control(tmp_path / "control.json").reason_to_leave() is None


def test_a_watched_job_goes_on_and_leaves_when_told(tmp_path):
    path = tmp_path / "control.json"
    control = Control(path)
    write(path)
    assert control.reason_to_leave() is None
    write(path, ask="pause")
    assert control.reason_to_leave() == "pause"
    write(path, ask="stop")
    assert control.reason_to_leave() == "stop"


def test_a_job_that_another_worker_adopted_goes_on_and_hears_only_that_one(tmp_path):
    path = tmp_path / "control.json"
    control = Control(path)
    write(path, token=1)
    assert control.reason_to_leave() is None
    write(path, token=2)
    assert control.reason_to_leave() is None
    write(path, token=1, ask="stop")
    assert control.reason_to_leave() is None
    write(path, token=2, ask="stop")
    assert control.reason_to_leave() == "stop"


def test_a_job_that_nobody_watches_leaves(tmp_path):
    path, now = tmp_path / "control.json", [5.0]
    control = Control(path, clock=lambda: now[0])
    write(path)
    assert control.reason_to_leave() is None
    now[0] += 600
    assert control.reason_to_leave() is None
    now[0] += 1
    assert control.reason_to_leave() == "unwatched"
    write(path)
    assert control.reason_to_leave() is None


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_was_set_sends_no_job_away(tmp_path, hours):
    path = tmp_path / "control.json"
    write(path)
    os.utime(path, (time.time() - 3600 * hours,) * 2)
    assert Control(path).reason_to_leave() is None


def test_a_half_written_file_changes_nothing(tmp_path):
    path = tmp_path / "control.json"
    control = Control(path)
    write(path)
    assert control.reason_to_leave() is None
    path.write_text("{")
    assert control.reason_to_leave() is None
