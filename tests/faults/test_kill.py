"""`kill -9` of every process in turn while a run trains: the run completes by itself, to the same bytes."""

import os
import signal

import pytest

from gpu_worker import processes
from tests.e2e import running
from tests.e2e.conftest import wait_until
from tests.e2e.running import adapter_hash, finish, train_past

STEPS = 240
LONG = 600
SERVICES = ["postgres", "valkey", "web", "control", "device/cpu"]


@pytest.fixture(scope="module")
def box(trained_box):
    return trained_box


@pytest.fixture(scope="module")
def http(box):
    return running.http_of(box, "faults")


@pytest.fixture(scope="module")
def undisturbed(http):
    """The adapter of a run that nothing happened to."""
    return adapter_hash(http, finish(http, start(http)))


def start(http, steps=STEPS):
    return running.start(http, steps=steps)


def job_pid(box, run_id):
    """The training process of a run's newest attempt."""
    return processes.job_of(running.attempt_of(box, run_id)).pid


def assert_same(http, run, expected):
    assert adapter_hash(http, run) == expected
    metrics = http.get(f"/v1/training/runs/{run['runId']}/metrics")["metrics"]
    assert [row["step"] for row in metrics] == list(range(1, STEPS + 1))
    assert all(pool["granted"] == 0 for pool in http.get("/v1/training/capacity")["pools"])


def kill(process):
    """kill -9, and wait until the kernel has taken it away."""
    process.send(signal.SIGKILL)
    assert process.wait(10)


def kill_services(box, *names):
    """kill -9 for services at once, and wait until others are in their place and the box is ready."""
    killed = {name: box.process(name) for name in names}
    for process in killed.values():
        kill(process)
    wait_until(lambda: all(box.service(name)["pid"] not in (None, process.pid) for name, process in killed.items())
               and box.is_ready(), 90, "the box's recovery")


def test_an_undisturbed_run_gives_the_same_bytes_twice(http, undisturbed):
    assert adapter_hash(http, finish(http, start(http))) == undisturbed


@pytest.mark.requirement("R016")
def test_killing_the_job_costs_an_attempt_and_no_byte(box, http, undisturbed):
    run_id = start(http)
    train_past(http, run_id, 30)
    os.kill(job_pid(box, run_id), signal.SIGKILL)
    run = finish(http, run_id)
    assert len(run["attempts"]) == 2
    assert_same(http, run, undisturbed)


@pytest.mark.requirement("R016")
@pytest.mark.parametrize("name", SERVICES)
def test_killing_a_service_costs_nothing(box, http, undisturbed, name):
    run_id = start(http)
    train_past(http, run_id, 30)
    kill_services(box, name)
    run = finish(http, run_id)
    assert len(run["attempts"]) == 1
    assert_same(http, run, undisturbed)


@pytest.mark.requirement("R016")
def test_killing_every_device_worker_leaves_the_job_to_the_next_ones(box, http):
    run_id = start(http, steps=LONG)
    train_past(http, run_id, 30)
    job = job_pid(box, run_id)
    kill_services(box, "device/cpu")
    seen = http.get(f"/v1/training/runs/{run_id}")["observedStep"]
    train_past(http, run_id, seen + 30)
    assert http.get(f"/v1/training/runs/{run_id}")["phase"] == "TRAINING", "the run ended before its workers were back"
    assert job_pid(box, run_id) == job
    run = finish(http, run_id)
    assert len(run["attempts"]) == 1


@pytest.mark.requirement("R016")
def test_killing_the_supervisor_leaves_no_orphan_and_the_next_start_goes_on(box, http, undisturbed):
    run_id = start(http)
    train_past(http, run_id, 30)
    services = [box.process(name) for name in SERVICES]
    kill(box.process("supervisor"))
    wait_until(lambda: not any(service.is_alive() for service in services), 30, "the end of every service")
    box.up()
    assert_same(http, finish(http, run_id), undisturbed)
