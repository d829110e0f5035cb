"""Every method and the smoke check on a real box, from rows to a model, a job killed on the way."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e import running
from tests.e2e.conftest import wait_until
from tests.e2e.running import adapter_hash, attempt_of, finish, losses, run_of
from tests.e2e.tiny_box import descriptor

STEPS = 60


@pytest.fixture(scope="module")
def box(scratch_home: Path, tmp_path_factory):
    it = running.ready_box(scratch_home, tmp_path_factory.mktemp("material"))
    yield it
    it.down()


@pytest.fixture(scope="module")
def http(box):
    return running.http_of(box, "methods")


@pytest.mark.requirement("R016", "R262")
def test_a_run_over_pairs_whose_job_is_killed_gives_the_bytes_of_one_that_was_left_alone(box, http):
    undisturbed, run_id = finish(http, start_over_pairs(http)), start_over_pairs(http)
    wait_until(lambda: (run_of(http, run_id)["savedStep"] or 0) >= 10, 120, "a save")
    kill_job(box, run_id)
    run = finish(http, run_id)
    assert len(run["attempts"]) == 2, "it ended before it was killed"
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    assert losses(http, run) == losses(http, undisturbed)
    assert (run["preference"]["step"], run["preference"]["accuracy"]) == (STEPS, 1.0)


@pytest.mark.requirement("R046")
def test_a_smoke_check_reproduces_the_rows_it_memorised(box, http):
    smoke = {"sliceSize": 2, "maxSteps": 200, "threshold": 1}
    run = finish(http, running.start(http, steps=200, smoke=smoke))
    assert (run["smoke"]["verdict"], run["smoke"]["reproduced"]) == ("passed", 2)
    assert box.run("runs", "wait", run["runId"], "--exit-status").returncode == 0


def start_over_pairs(http):
    config = descriptor()["config"] | {"dataset": "triage/pairs", "method": "dpo"}
    config["hyperparams"]["training"] |= {"maxSteps": STEPS}
    run = http.post("/v1/training/runs", descriptor(config=config, execution={"saveEvery": 10}))
    return run["runId"]


def kill_job(box, run_id):
    """kill -9 of the training process of the run's newest attempt."""
    os.kill(json.loads((attempt_of(box, run_id) / "pid.json").read_text())["job"]["pid"], signal.SIGKILL)
