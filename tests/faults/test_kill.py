"""`kill -9` of every process in turn while a run trains: the run completes by itself, to the same bytes."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Box, scratch_home, wait_until  # noqa: F401 - the fixture is used by name
from tests.e2e.tiny_box import adapter_hash, add_tiny_model, ask, descriptor, make_material, prepare

STEPS = 240
LONG = 600
SERVICES = ["postgres", "valkey", "web", "control", "device/cpu/0"]


@pytest.fixture(scope="module")
def box(scratch_home: Path, tmp_path_factory):  # noqa: F811
    material = tmp_path_factory.mktemp("material")
    make_material(material)
    it = Box(scratch_home)
    add_tiny_model(it, material)
    it.up()
    prepare(it, material)
    yield it
    it.down()


@pytest.fixture(scope="module")
def undisturbed(box):
    """The adapter of a run that nothing happened to."""
    return adapter_hash(box, finish(box, start(box)))


def start(box, steps=STEPS):
    path = box.home / "fault-run.json"
    import json
    path.write_text(json.dumps(descriptor(max_steps=steps, save_every=20)))
    return ask(box, "runs", "start", "-f", str(path))["runId"]


def finish(box, run_id):
    wait_until(lambda: ask(box, "runs", "get", run_id)["phase"] in {"COMPLETED", "FAILED", "CANCELLED"}, 240,
               "the end of the run")
    run = ask(box, "runs", "get", run_id)
    assert run["phase"] == "COMPLETED", f"{run['failureReason']}\n{box.logs()}"
    return run


def train_past(box, run_id, step):
    wait_until(lambda: ask(box, "runs", "get", run_id)["observedStep"] >= step, 120, f"step {step}")


def job_pid(box, run_id):
    """The training process of a run's newest attempt, found by the attempt's own record."""
    import json
    attempts = sorted((box.home / "attempts").glob("*/plan.json"), key=lambda path: path.stat().st_mtime)
    for plan in reversed(attempts):
        if json.loads(plan.read_text())["subject"]["id"] == run_id:
            return json.loads((plan.parent / "pid.json").read_text())["job"]["pid"]
    raise AssertionError("the run has no attempt")


def assert_same(box, run, expected):
    assert adapter_hash(box, run) == expected
    steps = [row["step"] for row in ask(box, "runs", "metrics", run["runId"])]
    assert steps == list(range(1, STEPS + 1))
    assert all(pool["granted"] == 0 for pool in ask(box, "capacity")["pools"])


def test_an_undisturbed_run_gives_the_same_bytes_twice(box, undisturbed):
    assert adapter_hash(box, finish(box, start(box))) == undisturbed


@pytest.mark.requirement("R016")
def test_killing_the_job_costs_an_attempt_and_no_byte(box, undisturbed):
    run_id = start(box)
    train_past(box, run_id, 30)
    os.kill(job_pid(box, run_id), signal.SIGKILL)
    run = finish(box, run_id)
    assert len(run["attempts"]) == 2
    assert_same(box, run, undisturbed)


@pytest.mark.requirement("R016")
@pytest.mark.parametrize("name", SERVICES)
def test_killing_a_service_costs_nothing(box, undisturbed, name):
    run_id = start(box)
    train_past(box, run_id, 30)
    os.kill(box.process(name).pid, signal.SIGKILL)
    time.sleep(0.5)
    wait_until(box.is_ready, 90, "the box's recovery")
    run = finish(box, run_id)
    assert len(run["attempts"]) == 1
    assert_same(box, run, undisturbed)


@pytest.mark.requirement("R016")
def test_killing_every_device_worker_leaves_the_job_to_the_next_ones(box):
    run_id = start(box, steps=LONG)
    train_past(box, run_id, 30)
    job = job_pid(box, run_id)
    for name in ("device/cpu/0", "device/cpu/1"):
        os.kill(box.process(name).pid, signal.SIGKILL)
    time.sleep(0.5)
    wait_until(box.is_ready, 90, "the box's recovery")
    seen = ask(box, "runs", "get", run_id)["observedStep"]
    train_past(box, run_id, seen + 30)
    assert ask(box, "runs", "get", run_id)["phase"] == "TRAINING", "the run ended before its workers were back"
    assert job_pid(box, run_id) == job
    run = finish(box, run_id)
    assert len(run["attempts"]) == 1


@pytest.mark.requirement("R016")
def test_killing_the_supervisor_leaves_no_orphan_and_the_next_start_goes_on(box, undisturbed):
    run_id = start(box)
    train_past(box, run_id, 30)
    services = [box.process(name) for name in SERVICES]
    os.kill(box.process("supervisor").pid, signal.SIGKILL)
    wait_until(lambda: not any(service.is_alive() for service in services), 30, "the end of every service")
    box.up()
    assert_same(box, finish(box, run_id), undisturbed)
