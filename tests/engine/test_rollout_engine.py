"""Completions that another engine samples: what it is handed, what an update makes of them, and how it ends.

vLLM itself is not needed: `fake_vllm` stands behind the job's own engine process, and says so.
"""

import json
import math
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import fake_vllm
import jobs
import pytest
import tiny
import torch
from optimize_child import line_process
from optimize_child.failures import JobFailure
from optimize_child.line_process import LineProcess, Lost
from optimize_child.reinforcement.loss import completion_weights
from optimize_child.reinforcement.samplers import EngineShape, VllmSampler, refuse_adapter
from optimize_child.reinforcement.vllm_engine import engine_arguments
from peft import LoraConfig

pytestmark = pytest.mark.filterwarnings("ignore")

RL = "config.rlHyperparams"
BESIDE = {"kind": "vllm", "reason": "", "python": "", "memory_share": 0.3, "at_once": 8, "required": True}
CHILD_ROOT = Path(__file__).resolve().parents[2] / "gpu_worker" / "child"


@pytest.fixture
def train(runs_of):
    """Runs one plan over some prompts, each call in an attempt of its own, at a rate that moves the adapter."""
    trains = runs_of(tiny.ticket_rows(5), tiny.rl_plan)

    def train(**changes):
        usual = {f"{RL}.maxSteps": 2, f"{RL}.klBeta": 0.0, f"{RL}.optimizer.learningRate": 0.05, "sampler": BESIDE}
        return trains(**{**usual, **changes})

    return train


def rollouts(attempt: Path) -> list[dict]:
    return [json.loads(line) for event in tiny.events_of(attempt, "rollouts")
            for line in (attempt / event["file"]).read_text().splitlines()]  # fmt: skip


@pytest.mark.requirement("R013")
def test_every_update_is_sampled_with_the_adapter_as_it_is_from_seeds_of_its_own(train, monkeypatch):
    made = fake_vllm.install(monkeypatch)
    attempt = train(**{f"{RL}.maxSteps": 3})
    (engine,) = made
    assert [request.lora_int_id for request in engine.adapters] == [1, 2, 3]
    assert len({request.lora_name for request in engine.adapters}) == 3
    seeds = [how.seed for how in engine.asked]
    assert len(set(seeds)) == len(seeds) == len(rollouts(attempt))
    assert engine.arguments["logprobs_mode"] == "processed_logprobs"
    assert engine.arguments["gpu_memory_utilization"] == 0.3
    told = tiny.events_of(attempt, "engine_config")[0]["resolved"]["sampler"]
    assert (told["kind"], told["version"], told["repeats"]) == ("vllm", fake_vllm.VERSION, "not bit for bit")
    # The two compute alike, so that each update was sampled with what it then learned from, up to rounding.
    assert max(jobs.metrics(attempt, "sampler_gap")) < 1e-5
    assert jobs.metrics(attempt, "sampler_left_out") == [0, 0, 0]
    assert tiny.events_of(attempt, "check")[-1]["name"] == "on_policy"
    assert not (attempt / "sampler").exists()


@pytest.mark.requirement("R013")
def test_greedily_it_samples_what_the_trainer_would(train, monkeypatch):
    own = train(**{f"{RL}.temperature": 0.0, "sampler": {"kind": "own", "reason": ""}})
    fake_vllm.install(monkeypatch)
    theirs = train(**{f"{RL}.temperature": 0.0})
    said = [[(one["completion"], one["tokens"], one["finish"]) for one in rollouts(run)] for run in (own, theirs)]
    assert said[0] == said[1]


@pytest.mark.requirement("R013")
def test_a_run_that_goes_on_asks_for_the_same_seeds(train, monkeypatch):
    made = fake_vllm.install(monkeypatch)
    whole = train()
    first = train(pause_at=1)
    second = train(first_attempt=False, resume=jobs.newest_snapshot(first))
    seeds = [[how.seed for how in engine.asked] for engine in made]
    assert seeds[0] == seeds[1] + seeds[2]
    assert jobs.adapter_bytes(whole) == jobs.adapter_bytes(second)


@pytest.mark.requirement("R013")
def test_weights_that_are_no_numbers_are_told_of_the_update_that_made_them(train, monkeypatch):
    fake_vllm.install(monkeypatch)
    first = train(pause_at=2, **{f"{RL}.maxSteps": 3})
    samples = VllmSampler.sample

    def broken(sampler, model, *asked, **named):
        next(part for part in model.parameters() if part.requires_grad).data.fill_(float("nan"))
        samples(sampler, model, *asked, **named)

    monkeypatch.setattr(VllmSampler, "sample", broken)
    goes_on = {"first_attempt": False, "resume": jobs.newest_snapshot(first)}
    failed = jobs.failure(train(**{f"{RL}.maxSteps": 3}, **goes_on))
    assert failed["code"] == "non_finite_weights"
    assert failed["reason"].startswith("The weights of update 2 are not finite")


@pytest.mark.requirement("R013")
def test_an_engine_that_samples_from_other_weights_is_found_out(train, monkeypatch):
    first = []

    def stays(request):
        first.append(request)
        kept = Path(request.lora_path).parents[1] / "kept"
        if len(first) == 1:
            Path(request.lora_path).rename(kept)
        return fake_vllm.LoRARequest("kept", 1, str(kept))

    fake_vllm.install(monkeypatch, adapter_of=stays)
    failed = jobs.failure(train(**{f"{RL}.maxSteps": 5, f"{RL}.optimizer.learningRate": 0.5}))
    assert failed["code"] == "reference_check_failed"
    assert "update 2" in failed["reason"]


@pytest.mark.requirement("R013")
@pytest.mark.parametrize(("shape", "why"), [
    ({"lora_dropout": 0.1}, "has dropout"), ({"rank_pattern": {"q_proj": 4}}, "a rank or an alpha of its own"),
    ({"alpha_pattern": {"q_proj": 9}}, "a rank or an alpha of its own")])  # fmt: skip
def test_an_adapter_that_vllm_would_compute_otherwise_is_not_handed_to_it(shape, why):
    refuse_adapter(LoraConfig(r=8))
    with pytest.raises(JobFailure, match=why) as refused:
        refuse_adapter(LoraConfig(r=8, **shape))
    assert refused.value.code == "rollout_engine_not_ready"
    assert "vllm.log" not in refused.value.hint  # nothing was started that could have written it


@pytest.mark.requirement("R013")
def test_a_run_from_an_adapter_with_dropout_samples_with_its_own_model(train, monkeypatch):
    source = train(sampler={"kind": "own", "reason": ""})
    saved = tiny.events_of(source, "snapshot")[-1]
    folder = source / saved["folder"]
    kept = json.loads((folder / "adapter_config.json").read_text()) | {"lora_dropout": 0.1}
    (folder / "adapter_config.json").write_text(json.dumps(kept))
    made = fake_vllm.install(monkeypatch)
    names = ("adapter_config.json", "adapter_model.safetensors")
    digests = {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}
    begin = {"warm_start": {"folder": str(folder), "sha256": digests}}
    told = tiny.events_of(train(sampler=BESIDE | {"required": False}, **begin), "engine_config")[0]["resolved"]
    assert (told["sampler"]["kind"], made) == ("own", [])
    assert "has dropout" in told["sampler"]["reason"]
    assert jobs.failure(train(**begin))["code"] == "rollout_engine_not_ready"


@pytest.mark.parametrize(("config", "limits"), [
    ({"vision_config": {}}, {"image": 0, "video": 0, "audio": 0}), ({"model_type": "llama"}, None)])
def test_a_model_that_also_reads_images_samples_without_its_towers(tmp_path, config, limits):
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape = EngineShape(length=64, at_once=8, rank=8, memory_share=0.3, device="cpu")
    assert engine_arguments(shape.spec(tmp_path)).get("limit_mm_per_prompt") == limits


def test_a_completion_counts_by_how_much_likelier_it_is_to_the_trainer():
    sampled = torch.tensor([-1.0, -2.0, -1.0, -3.0, -0.5], dtype=torch.float64)
    logps, lengths = sampled + torch.tensor([0.1, -0.3, 0.4, 1.0, 0.2], dtype=torch.float64), torch.tensor([2, 1, 2])
    weights = completion_weights(logps, sampled, lengths)
    assert weights.tolist() == pytest.approx([math.exp(-0.2), math.exp(0.4), 0], abs=1e-6)


# The process beside the job ------------------------------------------------------------------------------------------


@pytest.fixture
def python_with(tmp_path):
    """Makes an interpreter that finds a vLLM of a few lines, so that the process beside the job starts quickly."""

    def python_with(lines: str) -> str:
        package = tmp_path / "stub" / "vllm"
        (package / "lora").mkdir(parents=True)
        (package / "__init__.py").write_text(f"__version__ = '0.0.stub'\n{lines}\n")
        (package / "lora" / "__init__.py").write_text("")
        (package / "lora" / "request.py").write_text("class LoRARequest:\n    def __init__(self, **_): pass\n")
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{package.parent}" exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return str(python)

    return python_with


STARTS_ONCE = """
from pathlib import Path
if Path("once").exists(): raise ValueError("No room.")
Path("once").touch()
"""
WORKS = "class LLM:\n    def __init__(self, **_): print('to nobody')"
ENDS = "import os\nclass SamplingParams:\n    def __init__(self, **_): os._exit(7)"


def test_why_vllm_does_not_start_is_told_and_ends_only_the_run_that_must_have_it(train, python_with):
    python = python_with("class LLM:\n    def __init__(self, **_): raise ValueError('No room for the cache.\\nMore.')")
    beside = BESIDE | {"python": python}
    failed = jobs.failure(train(sampler=beside))
    reason = "vLLM cannot sample for this run: ValueError: No room for the cache."
    assert (failed["code"], failed["reason"]) == ("rollout_engine_not_ready", reason)
    assert 'trainer.rollouts.sampler = "own"' in failed["hint"]
    goes_on = train(sampler=beside | {"required": False})
    (warning,) = tiny.events_of(goes_on, "warning")
    assert (warning["code"], warning["message"]) == (failed["code"], f"{reason} The run samples with its own model.")
    told = tiny.events_of(goes_on, "engine_config")[0]["resolved"]["sampler"]
    assert (told["kind"], told["reason"]) == ("own", reason)


def test_an_engine_that_is_lost_twice_ends_the_run(train, python_with):
    failed = jobs.failure(train(sampler=BESIDE | {"python": python_with(f"{WORKS}\n{ENDS}")}))
    assert failed["code"] == "rollout_engine_lost"
    assert failed["reason"] == "vLLM could not sample the same 8 completions twice (exit status 7)."


STARTS_FOR_EVER = """
import json, os, time
from pathlib import Path
Path("engine.pid").write_text(str(os.getpid()))
Path("control.json").write_text(json.dumps({"token": 1, "ask": "stop"}))
time.sleep(600)
"""


def test_a_job_leaves_while_vllm_starts_and_the_engine_with_it(train, python_with, monkeypatch):
    monkeypatch.setattr(line_process, "END_SECONDS", 0.1)
    attempt = train(sampler=BESIDE | {"python": python_with(STARTS_FOR_EVER), "required": False})
    last = tiny.read_events(attempt)[-1]
    assert (last["type"], last["reason"]) == ("stopped", "stop")
    assert tiny.events_of(attempt, "warning") == []
    assert is_gone(int((attempt / "engine.pid").read_text()))


def test_an_answer_is_read_whole_however_it_comes(tmp_path):
    parts = ['{"a":', ' 1}\n{"b"', ': 2}\n']
    lines = ["import sys, time", f"for part in {parts}:", "    print(part, end='', flush=True)", "    time.sleep(0.1)",
             "sys.stdin.read()"]  # fmt: skip
    says = "\n".join(lines)
    command = [sys.executable, "-c", says]
    process = LineProcess(command, cwd=tmp_path, environment={}, log=tmp_path / "log", ready_seconds=60)
    assert process.start({}) == {"a": 1}
    assert process.ask({}) == {"b": 2}
    process.close()


@pytest.mark.requirement("R013")
@pytest.mark.parametrize("again", ["", STARTS_ONCE])
def test_a_run_that_may_sample_otherwise_goes_on_from_the_update_at_which_the_engine_is_lost(train, python_with, again):
    attempt = train(sampler=BESIDE | {"python": python_with(f"{again}{WORKS}\n{ENDS}"), "required": False})
    own = train(sampler={"kind": "own", "reason": ""})
    (warning,) = tiny.events_of(attempt, "warning")
    assert warning["code"] == ("rollout_engine_not_ready" if again else "rollout_engine_lost")
    assert warning["message"].endswith("From update 1 on the run samples with its own model.")
    before, after = (event["resolved"]["sampler"] for event in tiny.events_of(attempt, "engine_config"))
    assert (after["kind"], after["since"], after["before"]) == ("own", 1, before)
    assert after["repeats"] == "not bit for bit before update 1"
    assert warning["message"].startswith(after["reason"])
    assert jobs.adapter_bytes(attempt) == jobs.adapter_bytes(own)


@pytest.mark.requirement("R013")
def test_updates_that_its_own_model_samples_after_the_engine_are_not_weighed(train, monkeypatch):
    fake_vllm.install(monkeypatch)
    answers = fake_vllm.HereProcess.ask

    def ends(process, request):
        if request["id"] > 1:
            raise Lost("exit status 7")
        return answers(process, request)

    monkeypatch.setattr(fake_vllm.HereProcess, "ask", ends)
    attempt = train(sampler=BESIDE | {"required": False}, **{f"{RL}.maxSteps": 3})
    figures = [event["values"] for event in tiny.events_of(attempt, "metrics")]
    assert ["sampler_gap" in values for values in figures] == [True, False, False]
    assert tiny.events_of(attempt, "engine_config")[-1]["resolved"]["sampler"]["since"] == 2


def test_no_engine_outlives_a_job_that_is_killed(tmp_path, python_with):
    spec = {"model": "x", "dtype": "float32", "length": 64, "at_once": 8, "rank": 8, "memory_share": 0.3, "uuids": []}
    command = [python_with(WORKS), "-P", "-m", "optimize_child.reinforcement.vllm_engine"]
    starts = (
        "import os, time\nfrom pathlib import Path\nfrom optimize_child.line_process import LineProcess\n"
        f"engine = LineProcess({command}, cwd='/', environment=dict(os.environ), ready_seconds=60, "
        f"log=Path({str(tmp_path / 'log')!r}))\n"
        f"print(engine.start({spec} | {{'parent': os.getpid()}}), engine.pid, flush=True)\ntime.sleep(600)"
    )
    job = subprocess.Popen([sys.executable, "-c", starts], env={**os.environ, "PYTHONPATH": str(CHILD_ROOT)},
                           stdout=subprocess.PIPE)  # fmt: skip
    answer, _, engine = job.stdout.readline().decode().rpartition(" ")
    assert "'ready': True" in answer
    assert not is_gone(int(engine))
    job.send_signal(signal.SIGKILL)
    job.wait()
    jobs.wait_for(lambda: is_gone(int(engine)))


def is_gone(pid: int) -> bool:
    """Ended; one that waits to be buried counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
