"""What a job tells of what it really runs with: what setting up changed, the model, who samples, memory."""

from types import SimpleNamespace

import fake_vllm
import pytest
import tiny
from optimize_child.engine_runtime import changed_by_setup
from optimize_child.reinforcement.vllm_facts import engine_facts

pytestmark = pytest.mark.filterwarnings("ignore")
RL = "config.rlHyperparams"
BESIDE = {"kind": "vllm", "reason": "", "python": "", "memory_share": 0.3, "at_once": 8, "required": True}


@pytest.fixture
def train(runs_of):
    return runs_of(tiny.ticket_rows(8), tiny.sft_plan)


@pytest.fixture
def learn(runs_of):
    """A reinforcement run of two updates over some prompts."""
    trains = runs_of(tiny.ticket_rows(5), tiny.rl_plan)

    def run(**changes):
        return trains(**{f"{RL}.maxSteps": 2, f"{RL}.klBeta": 0.0, **changes})

    return run


def parts_of(attempt):
    """The parts of its record, each as it was told last, and every reading of memory."""
    found = {"memory": []}
    for event in tiny.events_of(attempt, "engine_runtime"):
        found["memory"] += event.get("memory", [])
        found |= {name: event[name] for name in ("trainer", "model", "rolloutEngine") if name in event}
    return found


def test_a_supervised_run_tells_its_trainer_its_model_and_what_memory_it_takes(train):
    attempt = train(**{"execution.microBatchSequences": 1})
    found = parts_of(attempt)
    trainer, model = found["trainer"], found["model"]
    (size,) = tiny.events_of(attempt, "plan_size")
    assert (trainer["updates"], trainer["updatesPerEpoch"]) == (size["totalSteps"], size["updatesPerEpoch"])
    assert (trainer["sequencesPerPass"], trainer["processes"]) == (1, 1)
    assert trainer["changedBySetup"] == {
        "model.attentionImplementation": {"before": "sdpa", "after": "optimize_segments"},
        "training.microBatchPerGpu": {"before": 2, "after": 1},
    }  # fmt: skip
    (told,) = tiny.events_of(attempt, "engine_config")
    assert model["trainableParameters"] == told["resolved"]["trainableParameters"]
    assert model["trainableParameters"] < model["parametersByType"]["float32"]
    assert len(model["adaptedModules"]) == 14 and "model.layers.1.mlp.up_proj" in model["adaptedModules"]
    assert [reading["moment"] for reading in found["memory"]] == ["afterLoad", "afterFirstStep"]
    assert all(reading["process"] == "trainer" and reading["hostBytes"] > 0 for reading in found["memory"])
    assert found["rolloutEngine"] == []


def test_a_reinforcement_run_tells_that_its_own_model_samples_and_reads_memory_after_the_first_rollout(learn):
    attempt = learn(sampler={"kind": "own", "reason": ""})
    found = parts_of(attempt)
    (engine,) = found["rolloutEngine"]
    assert (engine["replica"], engine["dataParallelRank"], engine["engine"]) == (0, 0, "own")
    plan = tiny.events_of(attempt, "hparams")[0]["values"]
    assert (engine["contextLength"], engine["eager"]) == (plan["maxSeqLength"], True)
    assert [reading["moment"] for reading in found["memory"]] == ["afterLoad", "afterFirstRollout", "afterFirstStep"]


def test_vllm_tells_of_itself_and_what_it_does_not_say_is_null(learn, monkeypatch):
    fake_vllm.install(monkeypatch)
    (engine,) = parts_of(learn(sampler=BESIDE))["rolloutEngine"]
    assert (engine["engine"], engine["version"], engine["replica"]) == ("vllm", fake_vllm.VERSION, 0)
    assert (engine["contextLength"], engine["kvCache"]["blocks"]) == (None, None)


def made(**media):
    """As much of vLLM's engine as says what it runs with."""
    group = SimpleNamespace(backend=SimpleNamespace(get_name=lambda: "FLASH_ATTN"))
    runner = SimpleNamespace(attn_groups=[[group], [group]])
    worker = SimpleNamespace(worker=SimpleNamespace(model_runner=runner))
    config = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=512, enforce_eager=False, multimodal_config=media.get("media")),
        cache_config=SimpleNamespace(cache_dtype="auto", block_size=16, num_gpu_blocks=100, gpu_memory_utilization=0.3),
    )
    executor = SimpleNamespace(driver_worker=worker)
    return SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=config, model_executor=executor))


def test_what_vllm_runs_with_is_read_from_the_engine_itself():
    assert engine_facts(made()) == {
        "contextLength": 512, "attentionBackends": ["FLASH_ATTN"], "memoryShare": 0.3, "eager": False,
        "kvCache": {"dtype": "auto", "blockSize": 16, "blocks": 100, "tokens": 1600}, "multimodalProfiling": False,
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "skips", "profiles"), [(0, False, False), (1, False, True), (1, True, False)])
def test_memory_is_set_aside_for_media_only_where_a_prompt_may_hold_some(limit, skips, profiles):
    media = SimpleNamespace(skip_mm_profiling=skips, get_limit_per_prompt=lambda kind: limit)
    assert engine_facts(made(media=media))["multimodalProfiling"] is profiles


def test_a_setting_counts_as_changed_where_it_stands_for_another_value():
    stands = {"a": 1, "b": (1, 2), "c": None, "more": 3}
    assert changed_by_setup({"a": 1, "b": [1, 2], "c": "x"}, stands) == {"c": {"before": "x", "after": None}}
