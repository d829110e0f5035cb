"""A run's whole life on a real box: paused and resumed to the same bytes, branched, swept, and in a pipeline."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e import running
from tests.e2e.conftest import wait_until
from tests.e2e.running import OVER, adapter_hash, finish, losses, verify
from tests.e2e.tiny_box import TINY, descriptor

STEPS, BRANCHED = 120, 6


@pytest.fixture(scope="module")
def box(scratch_home: Path, tmp_path_factory):
    it = running.ready_box(scratch_home, tmp_path_factory.mktemp("material"))
    yield it
    it.down()


@pytest.fixture(scope="module")
def http(box):
    return running.http_of(box, "lifecycle")


@pytest.fixture(scope="module")
def undisturbed(http):
    """A run that nothing happened to."""
    return finish(http, start(http))


def start(http, **changes):
    return running.start(http, steps=STEPS, **changes)


def first_save(http, run):
    saves = http.get(f"/v1/training/runs/{run['runId']}/snapshots")["snapshots"]
    return next(save for save in saves if "trainingState" in save["artifacts"] and not save["isFinal"])


@pytest.mark.requirement("R016", "R283", "R286")
@pytest.mark.parametrize("checkpoint", ["save", "latest"])
def test_a_run_that_rested_gives_the_bytes_of_one_that_did_not(http, undisturbed, checkpoint):
    run_id = start(http)
    path = f"/v1/training/runs/{run_id}"
    wait_until(lambda: (http.get(path)["savedStep"] or 0) >= 20, 120, "a save")
    http.post(f"{path}/pause", {"checkpoint": checkpoint})
    paused = http.follow(path, "phase", {"PAUSED", *OVER})
    assert (paused["phase"], paused["pause"]["resourcesReleased"]) == ("PAUSED", True), "it ended before the pause came"
    assert all(pool["granted"] == 0 for pool in http.get("/v1/training/capacity")["pools"])
    http.post(f"{path}/resume", {})
    run = finish(http, run_id)
    assert [attempt["resumedStep"] for attempt in run["attempts"]] == [None, paused["pause"]["savedStep"]]
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    assert losses(http, run) == losses(http, undisturbed)
    assert verify(http, run)["figures"] == STEPS


@pytest.mark.requirement("R032")
def test_a_branch_goes_on_from_a_training_state_with_a_budget_of_its_own(http, undisturbed):
    source = first_save(http, undisturbed)
    body = {"snapshot": source["snapshotId"], "steps": BRANCHED, "restoreMode": "trainingState"}
    child = finish(http, http.post(f"/v1/training/runs/{undisturbed['runId']}/branch", body)["runId"])
    assert (child["parentRunId"], child["restore"]["mode"]) == (undisturbed["runId"], "trainingState")
    assert sorted(losses(http, child)) == list(range(1, BRANCHED + 1))
    assert losses(http, child)[1] == losses(http, undisturbed)[source["step"] + 1], "it saw other rows or weights"
    verify(http, child)


@pytest.mark.requirement("R033")
def test_a_sweep_makes_a_model_of_each_point(http, undisturbed):
    grid = {"axes": [{"path": "hyperparams.optimizer.learningRate", "values": [0.001, 0.004]}]}
    body = {"snapshot": first_save(http, undisturbed)["snapshotId"], "steps": BRANCHED, "grid": grid}
    points = http.post(f"/v1/training/runs/{undisturbed['runId']}/sweep", body)["points"]
    made = [finish(http, point["childRunId"]) for point in points]
    assert [run["sweepPoint"] for run in made] == [{axis["path"]: value} for axis in grid["axes"]
                                                   for value in axis["values"]]
    assert len({adapter_hash(http, run) for run in made}) == 2


@pytest.mark.requirement("R034")
def test_a_pipeline_survives_the_death_of_the_supervisor(box, http, undisturbed):
    stages = [{"name": "train", "type": "train", "baseModel": TINY, **part_of_descriptor()},
              {"name": "judge", "type": "evaluate", "model": "@train", "dataset": "triage/eval"}]
    made = http.post("/v1/training/pipelines", {"kind": "pipeline", "workload": "triage", "stages": stages})
    path = f"/v1/training/pipelines/{made['pipelineId']}"
    wait_until(lambda: training_at(http, made["pipelineId"]) >= 20, 120, "the pipeline's training")
    supervisor = box.process("supervisor")
    supervisor.send(signal.SIGKILL)
    assert supervisor.wait(10)
    box.up()
    done = http.follow(path, "phase", OVER)
    assert done["phase"] == "COMPLETED", json.dumps(done)
    run = http.get(f"/v1/training/runs/{done['stages'][0]['runId']}")
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    verify(http, run)


def part_of_descriptor():
    body = descriptor(max_steps=STEPS, save_every=20)
    return {name: body[name] for name in ("config", "execution")}


def training_at(http, pipeline_id):
    """The update that the pipeline's first run is at."""
    run_id = http.get(f"/v1/training/pipelines/{pipeline_id}")["stages"][0].get("runId")
    return http.get(f"/v1/training/runs/{run_id}")["observedStep"] if run_id else 0
