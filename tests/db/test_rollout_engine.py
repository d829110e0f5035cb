"""vLLM as a run's sampler, through the operations: refused before a device is claimed, planned, and predicted."""

import json

import pytest

from gpu_worker import claims
from gpu_worker.engines import plans
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import Unavailable
from optimize_site.kernel.models import Attempt
from registry.base_model_queries import base_model_state
from registry.models import BaseModel
from runs.errors import RunRefused
from runs.operations import advance_run, check_run, submit_run
from runs.work import RunWork
from tests import factories as make
from tests import playing

pytestmark = pytest.mark.django_db
GIB = 1024**3
SHAPE = {"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128,
         "vocab_size": 512}


@pytest.fixture
def box(db, tmp_path, monkeypatch):
    """A box whose device is a GPU of 80 GiB, and that has vLLM in an interpreter of its own."""
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    (tmp_path / "vllm" / "lib" / "python3.11" / "site-packages" / "vllm-0.24.0.dist-info").mkdir(parents=True)
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_VLLM_PYTHON", str(tmp_path / "vllm" / "bin" / "python"))
    make.make_device("GPU-1", kind="gpu", profile="h200", memory_bytes=80 * GIB)
    make.make_device("host", kind="host", profile="host")
    make.make_workload(grader="exact")
    make.put_weights(make.make_base_model())
    make.make_dataset("triage/train", 16)
    make.measured("triage/train")


def document(**changes):
    return make.run_document(config={"method": "grpo", "rlHyperparams": {"maxSteps": 4}}, **changes)


def sampler_of(run):
    advance_run(run.pk)
    attempt = claims.claim("GPU-1", 0)
    body = RunWork().plan(playing.reread(run), attempt)
    device = {"kind": "cuda", "uuids": ["GPU-1"]}
    return plans.complete(body, attempt=attempt.pk, subject={"kind": "run", "id": run.pk}, threads=1,
                          device=device)["sampler"]


@pytest.mark.requirement("R013")
def test_a_stated_share_is_planned_and_predicted(box, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_MEMORY_SHARE", "0.4")
    run = submit_run(document(), actor=LOCAL).run
    assert run.predicted_memory["parts"]["generation"] == round(0.4 * 80 * GIB)
    planned = sampler_of(run)
    assert (planned["kind"], planned["required"]) == ("vllm", False)
    assert (planned["memory_share"], planned["at_once"]) == (0.4, 32)
    assert planned["python"].endswith("/vllm/bin/python")


@pytest.mark.requirement("R013")
def test_what_vllm_cannot_sample_for_is_refused_where_the_box_asks_for_vllm(box, monkeypatch):
    assert check_run(document(), actor=LOCAL)["problems"] == []
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_SAMPLER", "vllm")
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_VLLM_PYTHON", "/nowhere/bin/python")
    (problem,) = check_run(document(), actor=LOCAL)["problems"]
    assert problem["code"] == "vllm_not_installed"
    assert problem["message"] == "vLLM is not installed in what /nowhere/bin/python imports from."
    with pytest.raises(RunRefused):
        submit_run(document(), actor=LOCAL)
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_SAMPLER", "own")
    run = submit_run(document(), actor=LOCAL).run
    assert sampler_of(run) == {"kind": "own", "reason": "trainer.rollouts.sampler is own.", "python": "",
                               "memory_share": 0.0, "at_once": 0, "required": False}


@pytest.mark.requirement("R013")
def test_a_box_that_wants_vllm_alone_never_samples_otherwise_whatever_it_lost_since(box, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_SAMPLER", "vllm")
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_MEMORY_SHARE", "0.4")
    run = submit_run(document(), actor=LOCAL).run
    advance_run(run.pk)
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_VLLM_PYTHON", "/nowhere/bin/python")
    with pytest.raises(Unavailable, match="vLLM is not installed in what /nowhere"):
        sampler_of(run)


@pytest.mark.requirement("R013")
def test_vllm_samples_for_a_run_whose_base_model_was_prepared_after_it_was_sent(box):
    run = submit_run(document(), actor=LOCAL).run
    assert run.predicted_memory["bytes"] is None, "the dimensions of a model are known once it is here"
    folder = base_model_state(run.base_model).folder
    (folder / "config.json").write_text(json.dumps(SHAPE))
    BaseModel.objects.update(facts={"contextLength": 4096, "parameters": 10_000_000})
    planned = sampler_of(run)
    assert planned["kind"] == "vllm" and 0 < planned["memory_share"] < 0.2


def test_a_change_of_the_settings_reaches_a_run_in_flight_at_its_next_attempt(box, monkeypatch):
    """As docs/reinforcement.md says."""
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_MEMORY_SHARE", "0.4")
    run = submit_run(document(), actor=LOCAL).run
    assert sampler_of(run)["memory_share"] == 0.4
    playing.end(run, Attempt.objects.get(), "lost", exit={"signal": 9})
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_MEMORY_SHARE", "0.3")
    assert sampler_of(run)["memory_share"] == 0.3
    playing.end(playing.reread(run), Attempt.objects.latest("number"), "lost", exit={"signal": 9})
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_SAMPLER", "own")
    assert sampler_of(run)["kind"] == "own"


@pytest.mark.requirement("R013")
@pytest.mark.parametrize(("parameters", "phase", "code"), [
    (10_000_000, "AWAITING_CAPACITY", ""), (40_000_000_000, "FAILED", "no_room_for_vllm"),
    (None, "FAILED", "vllm_memory_unknown")])
def test_a_box_that_wants_vllm_alone_asks_again_once_the_base_model_is_prepared(box, monkeypatch, parameters, phase,
                                                                               code):
    """Before, nobody knows how much memory there is for vLLM: it refuses no run, and none claims a device for it."""
    monkeypatch.setenv("OPTIMIZE_TRAINER_ROLLOUTS_SAMPLER", "vllm")
    assert [problem["code"] for problem in check_run(document(), actor=LOCAL)["problems"]] == ["vllm_memory_unknown"]
    BaseModel.objects.update(phase="PREPARING")
    run = submit_run(document(), actor=LOCAL).run
    advance_run(run.pk)
    assert playing.reread(run).phase == "AWAITING_BASE_MODEL"
    BaseModel.objects.update(phase="READY", facts={"contextLength": 4096, "parameters": parameters})
    if parameters:
        (base_model_state(run.base_model).folder / "config.json").write_text(json.dumps(SHAPE))
    advance_run(run.pk)
    run = playing.reread(run)
    assert (run.phase, run.failure_code) == (phase, code)
    assert not run.num_attempts
