"""`kill -9` of every process in turn while a run trains: the process comes back, and the run completes by itself, to
the same bytes. The supervisor's turn comes in the tests of a run's whole life."""

import signal
from pathlib import Path

import pytest

from gpu_worker import processes
from optimize_site.processes import Identity
from tests.e2e.conftest import wait_until
from tests.e2e.running import STEPS, adapter_hash, attempt_of, finish, halted, losses, run_of, start

SERVICES = ["postgres", "valkey", "web", "control"]
DEVICES = ["device/cpu", "device/host"]


def job_of(box, run_id):
    """The training process of a run's newest attempt."""
    return processes.job_of(attempt_of(box, run_id))


def assert_same(http, run, undisturbed):
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    assert losses(http, run) == losses(http, undisturbed)
    metrics = http.get(f"/v1/training/runs/{run['runId']}/metrics")["metrics"]
    assert [row["step"] for row in metrics] == list(range(1, STEPS + 1))
    assert all(pool["granted"] == 0 for pool in http.get("/v1/training/capacity")["pools"])


def kill_services(box, *names):
    """kill -9 for services at once."""
    killed = {name: (box.service(name), box.process(name)) for name in names}
    for _, process in killed.values():
        process.send(signal.SIGKILL)
    for _, process in killed.values():
        assert process.wait(10)
    return {name: before for name, (before, _) in killed.items()}


def await_others(box, killed):
    """Wait until others are in their place, which remember how they ended, and the box is ready."""
    wait_until(lambda: all(box.service(name)["restarts"] > before["restarts"] for name, before in killed.items())
               and box.is_ready(), 90, "the box's recovery")
    for name, before in killed.items():
        after = box.service(name)
        assert (after["restarts"], after["lastError"]) == (before["restarts"] + 1, "ended by SIGKILL")
        assert after["pid"] != before["pid"]
        if name in ("control", *DEVICES):
            assert memory_shared(after["pid"]) > 20 * 2**20, "it was not forked beside the others"


def memory_shared(pid):
    """Bytes that a process wrote to and shares with others: what forking saves."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Shared_Dirty:"))


def children_of(process):
    """The live children of a process."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [found for child in text.split() if (found := Identity.of(int(child)))]


@pytest.mark.requirement("R016")
def test_killing_the_job_costs_an_attempt_and_no_byte(box, http, undisturbed):
    run_id = start(http)
    with halted(box, run_id, save=20):
        job_of(box, run_id).send(signal.SIGKILL)
    run = finish(http, run_id)
    assert len(run["attempts"]) == 2
    assert_same(http, run, undisturbed)


@pytest.mark.requirement("R016")
@pytest.mark.parametrize("name", SERVICES)
def test_killing_a_service_costs_nothing(box, http, undisturbed, name):
    run_id = start(http)
    with halted(box, run_id, save=20):
        children = children_of(box.process(name))
        killed = kill_services(box, name)
    await_others(box, killed)
    assert children or name != "web"
    wait_until(lambda: not any(child.is_alive() for child in children), what="the end of its own processes")
    run = finish(http, run_id)
    assert len(run["attempts"]) == 1
    assert_same(http, run, undisturbed)


@pytest.mark.requirement("R016")
def test_killing_every_device_worker_leaves_the_job_to_the_next_ones(box, http, undisturbed):
    run_id = start(http)
    with halted(box, run_id, save=20):
        job = job_of(box, run_id)
        await_others(box, kill_services(box, *DEVICES))
        wait_until(lambda: run_of(http, run_id)["phase"] == "TRAINING", what="its being looked after")
    run = finish(http, run_id)
    assert len(run["attempts"]) == 1
    assert job_of(box, run_id) == job
    assert_same(http, run, undisturbed)
