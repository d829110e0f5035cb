"""A run's whole life on a real box: paused and resumed to the same bytes, branched, swept, and in a pipeline."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from tests.e2e.conftest import wait_until
from tests.e2e.running import OVER, STEPS, adapter_hash, asked_of, finish, halted, losses, run_of, start, verify
from tests.e2e.tiny_box import TINY, ask, descriptor

BRANCHED = 6


def first_save(http, run):
    saves = http.get(f"/v1/training/runs/{run['runId']}/snapshots")["snapshots"]
    return next(save for save in saves if "trainingState" in save["artifacts"] and not save["isFinal"])


@pytest.mark.requirement("R016", "R283", "R286")
@pytest.mark.parametrize("checkpoint", ["save", "latest"])
def test_a_run_that_rested_gives_the_bytes_of_one_that_did_not(http, undisturbed, checkpoint):
    run_id = start(http)
    path = f"/v1/training/runs/{run_id}"
    with halted(http.box, run_id, save=20):
        wait_until(lambda: (http.get(path)["savedStep"] or 0) >= 20, 120, "a save")
        http.post(f"{path}/pause", {"checkpoint": checkpoint})
        wait_until(lambda: asked_of(http.box, run_id) != "", what="the word to the job")
    paused = http.follow(path, "phase", {"PAUSED", *OVER})
    assert (paused["phase"], paused["pause"]["resourcesReleased"]) == ("PAUSED", True), "it ended before the pause came"
    assert all(pool["granted"] == 0 for pool in http.get("/v1/training/capacity")["pools"])
    assert paused["pause"]["savedStep"] >= 20
    http.post(f"{path}/resume", {})
    run = finish(http, run_id)
    assert [attempt["resumedStep"] for attempt in run["attempts"]] == [None, paused["pause"]["savedStep"]]
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    assert losses(http, run) == losses(http, undisturbed)
    assert verify(http, run)["figures"] == STEPS


@pytest.mark.requirement("R184")
def test_a_box_that_goes_down_has_its_job_save_and_the_next_up_trains_on_to_the_same_bytes(box, http, undisturbed):
    run_id = start(http)
    path = f"/v1/training/runs/{run_id}"
    with ThreadPoolExecutor(1) as thread:
        with halted(box, run_id, save=20):
            wait_until(lambda: (http.get(path)["savedStep"] or 0) >= 20, 120, "a save")
            down = thread.submit(box.down)
            wait_until(lambda: asked_of(box, run_id) == "stop", what="the word to the job")
        down.result(120)
    box.up()
    run = finish(http, run_id)
    assert run["attempts"][-1]["resumedStep"] >= 20
    assert len(run["attempts"]) == 2
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    assert losses(http, run) == losses(http, undisturbed)


@pytest.mark.requirement("R032")
def test_a_branch_goes_on_from_a_training_state_with_a_budget_of_its_own(http, undisturbed):
    source = first_save(http, undisturbed)
    body = {"snapshot": source["snapshotId"], "steps": BRANCHED, "restoreMode": "trainingState"}
    child = finish(http, http.post(f"/v1/training/runs/{undisturbed['runId']}/branch", body)["runId"])
    assert (child["parentRunId"], child["restore"]["mode"]) == (undisturbed["runId"], "trainingState")
    assert sorted(losses(http, child)) == list(range(1, BRANCHED + 1))
    assert losses(http, child)[1] == losses(http, undisturbed)[source["step"] + 1], "it saw other rows or weights"
    verify(http, child)


@pytest.mark.requirement("R033", "R034", "R035")
def test_a_sweep_and_a_gated_pipeline_from_a_file_each_survive_the_death_of_the_supervisor(
        box, http, undisturbed, tmp_path):
    grid_file, pipeline_file = tmp_path / "grid.json", tmp_path / "pipeline.json"
    grid = {"axes": [{"path": "hyperparams.optimizer.learningRate", "values": [0.001, 0.002, 0.003, 0.004, 0.005]},
                     {"path": "hyperparams.training.validationFrequencySteps", "values": [2, 3]}]}
    grid_file.write_text(json.dumps(grid))
    pipeline_file.write_text(json.dumps({"kind": "pipeline", "workload": "triage", "stages": STAGES}))
    points = ask(box, "runs", "sweep", undisturbed["runId"], "--snapshot", first_save(http, undisturbed)["snapshotId"],
                 "--steps", str(BRANCHED), "--grid", str(grid_file))["points"]
    made = ask(box, "pipelines", "start", "--file", str(pipeline_file))
    path = f"/v1/training/pipelines/{made['pipelineId']}"
    wait_until(lambda: training_at(http, path) >= 20 and completed(http, points) >= 3, 240, "half of both", every=0.3)
    supervisor, services = box.process("supervisor"), [box.process(row["name"]) for row in box.status()["services"]]
    supervisor.send(signal.SIGKILL)
    assert supervisor.wait(10)
    wait_until(lambda: not any(service.is_alive() for service in services), 30, "the end of every service")
    box.up()
    assert box.is_ready()
    assert box.process("supervisor") != supervisor
    runs = [finish(http, point["childRunId"]) for point in points]
    assert [tuple(run["sweepPoint"].values()) for run in runs] == list(product(*(axis["values"] for axis in
                                                                               grid["axes"])))
    # Validating draws nothing: five learning rates make five adapters.
    assert len({adapter_hash(http, run) for run in runs}) == 5
    done = http.follow(path, "phase", OVER)
    assert [(stage["name"], stage["state"]) for stage in done["stages"]] == [
        ("train", "COMPLETED"), ("judge", "COMPLETED"), ("longer", "COMPLETED")], json.dumps(done)
    run = run_of(http, done["stages"][0]["runId"])
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    for each in (run, runs[-1]):
        verify(http, each)


def test_a_stretch_of_a_run_is_trained_again_to_the_recorded_bytes(http, undisturbed):
    assert verify(http, undisturbed, replay="true")["replay"] == 20


def train_stage(name, steps):
    body = descriptor(max_steps=steps, save_every=20)
    return {"name": name, "type": "train", "baseModel": TINY, "config": body["config"], "execution": body["execution"]}


STAGES = [train_stage("train", STEPS),
          {"name": "judge", "type": "evaluate", "model": "@train", "dataset": "triage/eval", "minMeanScore": 0.0,
           "maxCompletionTokens": 16},
          train_stage("longer", 20)]


def completed(http, points):
    """How many points of a sweep are."""
    return sum(run_of(http, point["childRunId"])["phase"] == "COMPLETED" for point in points)


def training_at(http, path):
    """The update that a pipeline's first run is at."""
    run_id = http.get(path)["stages"][0].get("runId")
    return run_of(http, run_id)["observedStep"] if run_id else 0
