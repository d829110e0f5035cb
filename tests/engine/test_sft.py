"""Supervised training through the whole entry, with a tiny model."""

import json

import jobs
import pytest
import tiny
import torch
from optimize_child.memory import MemorySplit
from safetensors.torch import load_file

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def train(runs_of):
    """Runs one plan over some rows, each call in an attempt of its own."""
    return runs_of(tiny.ticket_rows(24), tiny.sft_plan)


def test_a_run_says_what_it_does_from_start_to_finish(train):
    attempt = train()
    types = [event["type"] for event in tiny.read_events(attempt)]
    assert types[0] == "started"
    assert types[-1] == "finished"
    assert [event["name"] for event in tiny.events_of(attempt, "stage") if event["name"] != "tokenising"] == [
        "reading", "loading", "starting", "training", "saving",
    ]  # fmt: skip
    assert len(tiny.events_of(attempt, "metrics")) == 6
    (size,) = tiny.events_of(attempt, "plan_size")
    assert (size["totalSteps"], size["rowsPerEpoch"]) == (6, 24)


def test_the_loss_falls(train):
    losses = jobs.metrics(train(**{"config.hyperparams.training.epochs": 3}), "loss")
    assert losses[-1] < losses[0] - 1


def test_the_final_snapshot_is_an_adapter_over_the_base_model_by_its_public_name(train):
    attempt = train()
    (snapshot,) = tiny.events_of(attempt, "snapshot")
    assert snapshot["final"]
    folder = attempt / snapshot["folder"]
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("test/tiny", "r1")
    assert (snapshot["weights"], snapshot["trainingState"], snapshot["step"]) == (True, True, 6)


@pytest.mark.requirement("R066")
def test_default_adapts_every_linear_module_of_the_backbone_and_not_the_head(train):
    weights = load_file(train_folder(train()) / "adapter_model.safetensors")
    modules = {name.split(".lora_")[0].rsplit(".", 1)[-1] for name in weights}
    assert modules == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert len(weights) == 2 * 7 * 2


def train_folder(attempt):
    return attempt / tiny.events_of(attempt, "finished")[0]["adapter"]


@pytest.mark.requirement("R066")
def test_a_pattern_adapts_the_modules_whose_whole_path_it_matches(train):
    pattern = r"model\.layers\.1\..*(q|v)_proj"
    weights = load_file(
        train_folder(train(**{"config.hyperparams.lora.targetModules": pattern})) / "adapter_model.safetensors"
    )
    modules = {name.removeprefix("base_model.model.").split(".lora_")[0] for name in weights}
    assert modules == {"model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"}


@pytest.mark.requirement("R067")
@pytest.mark.parametrize("pattern", ["q_proj", "lm_head", "(", "nothing.*"])
def test_a_pattern_that_matches_no_module_fails_by_name(train, pattern):
    failed = jobs.failure(train(**{"config.hyperparams.lora.targetModules": pattern}))
    assert failed["code"] == "no_target_modules"
    assert "model.layers.0.self_attn.q_proj" in failed["hint"]


@pytest.mark.requirement("R063", "R064", "R065")
def test_rank_alpha_and_dropout_shape_the_adapter(train):
    attempt = train(**{"config.hyperparams.lora": {"rank": 3, "alpha": 7, "dropout": 0.1, "targetModules": "default"}})
    config = json.loads((train_folder(attempt) / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (3, 7, 0.1)


@pytest.mark.requirement("R069", "R072", "R073")
@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ({"kind": "linear", "warmupRatio": 0, "minLearningRateRatio": 0}, [6 / 6, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
        ({"kind": "constant", "warmupRatio": 0.3, "minLearningRateRatio": 0}, [0, 0.5, 1, 1, 1, 1]),
    ],
)
def test_the_learning_rate_takes_the_course_of_its_schedule(train, scheduler, expected):
    rates = jobs.metrics(train(**{"config.hyperparams.scheduler": scheduler}), "learning_rate")
    assert rates == pytest.approx([0.005 * share for share in expected])


@pytest.mark.requirement("R072", "R074")
def test_cosine_decays_to_its_floor(train):
    scheduler = {"kind": "cosine", "warmupRatio": 0, "minLearningRateRatio": 0.2}
    rates = jobs.metrics(train(**{"config.hyperparams.scheduler": scheduler}), "learning_rate")
    assert rates[0] == 0.005
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] > 0.2 * 0.005
    assert rates[-1] < 0.3 * 0.005


@pytest.mark.requirement("R076")
def test_a_cap_stops_the_run_before_its_epochs_are_over(train):
    attempt = train(**{"config.hyperparams.training.maxSteps": 2})
    assert tiny.events_of(attempt, "finished")[0]["step"] == 2
    assert tiny.events_of(attempt, "plan_size")[0]["totalSteps"] == 2


@pytest.mark.requirement("R070")
def test_weight_decay_shrinks_every_adapted_weight(train):
    plain, decayed = (
        load_file(
            train_folder(train(**{"config.hyperparams.optimizer.weightDecay": decay})) / "adapter_model.safetensors"
        )
        for decay in (0, 20)
    )
    name = next(name for name in plain if "lora_A" in name)
    assert decayed[name].norm() < plain[name].norm() * 0.9


@pytest.mark.requirement("R071")
def test_the_gradient_is_clipped_to_the_norm_that_is_stated(train):
    one, other = (
        load_file(train_folder(train(**{
            "config.hyperparams.optimizer.maxGradNorm": norm, "config.hyperparams.training.maxSteps": 2,
        })) / "adapter_model.safetensors")
        for norm in (1e9, 1e-4)
    )  # fmt: skip
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.requirement("R079")
def test_f17_micro_batch_and_accumulation_trade_without_changing_the_result(train):
    def losses(micro, accumulated, strict):
        return jobs.metrics(
            train(**{
                "config.hyperparams.training.microBatchPerGpu": micro,
                "config.hyperparams.training.gradientAccumulation": accumulated,
                "strict": strict,
            }),
            "loss",
        )  # fmt: skip

    whole = losses(4, 1, True)
    assert losses(1, 4, True) == pytest.approx(whole, rel=1e-4)
    assert losses(2, 2, False) == pytest.approx(whole, rel=1e-4)


def test_f18_the_last_partial_update_is_normalised_by_its_own_tokens(train):
    rows = tiny.ticket_rows(6)
    in_order = {
        "config.data.shuffle": False,
        "config.hyperparams.training.microBatchPerGpu": 1,
        "config.hyperparams.optimizer.learningRate": 1e-12,
    }
    whole = train(rows, **in_order, **{"config.hyperparams.training.gradientAccumulation": 4})
    alone = train(rows[4:], **in_order, **{"config.hyperparams.training.gradientAccumulation": 2})
    assert len(jobs.metrics(whole, "loss")) == 2
    assert jobs.metrics(whole, "loss")[1] == pytest.approx(jobs.metrics(alone, "loss")[0], rel=1e-5)
    assert jobs.metrics(whole, "grad_norm")[1] == pytest.approx(jobs.metrics(alone, "grad_norm")[0], rel=1e-4)


@pytest.mark.requirement("R086")
def test_f10_validation_uses_the_mask_policy_of_training(train, write_rows, base_model, tmp_path):
    rows = tiny.ticket_rows(4)
    same = write_rows(rows, "validation.jsonl")
    attempt = train(rows, **{
        "validation": {"files": [str(same)], "content_hash": "d", "num_examples": 4},
        "config.hyperparams.optimizer.learningRate": 1e-12,
        "config.hyperparams.training.validationFrequencySteps": 1,
    })  # fmt: skip
    (reading,) = tiny.events_of(attempt, "validation")
    assert reading["loss"] == pytest.approx(jobs.metrics(attempt, "loss")[0], rel=1e-5)
    assert reading["perplexity"] == pytest.approx(torch.tensor(reading["loss"]).exp().item(), rel=1e-4)


@pytest.mark.requirement("R083", "R086")
def test_validation_is_read_every_so_many_updates_and_at_the_end(train, write_rows):
    held = write_rows(tiny.ticket_rows(3, seed=9), "validation.jsonl")
    attempt = train(**{
        "validation": {"files": [str(held)], "content_hash": "d", "num_examples": 3},
        "config.hyperparams.training.validationFrequencySteps": 4,
    })  # fmt: skip
    assert [event["step"] for event in tiny.events_of(attempt, "validation")] == [4, 6]
    assert tiny.events_of(attempt, "data_fit")[0]["validation"]["rows"] == 3


@pytest.mark.requirement("R083")
def test_reading_validation_changes_nothing_in_training(train, write_rows):
    held = write_rows(tiny.ticket_rows(3, seed=9), "validation.jsonl")
    with_dropout = {"config.hyperparams.lora.dropout": 0.2}
    alone = train(**with_dropout)
    beside = train(**with_dropout, **{
        "validation": {"files": [str(held)], "content_hash": "d", "num_examples": 3},
        "config.hyperparams.training.validationFrequencySteps": 1,
    })  # fmt: skip
    assert jobs.adapter_bytes(alone) == jobs.adapter_bytes(beside)


def test_the_same_plan_gives_the_same_bytes_and_another_seed_gives_others(train):
    assert jobs.adapter_bytes(train()) == jobs.adapter_bytes(train())
    assert jobs.adapter_bytes(train()) != jobs.adapter_bytes(train(**{"config.hyperparams.training.seed": 7}))


@pytest.mark.requirement("R095")
def test_data_fit_counts_rows_and_tokens(train):
    long = {"messages": [{"role": "user", "content": "late " * 600}, {"role": "assistant", "content": "a"}]}
    (fit,) = tiny.events_of(train([*tiny.ticket_rows(8), long], **{"config.data.truncation": "drop"}), "data_fit")
    assert (fit["rows"], fit["tooLong"]) == (8, 1)
    assert 0 < fit["trainedTokens"] < fit["totalTokens"]
    assert fit["longest"] <= 512


@pytest.mark.requirement("R087")
def test_packed_rows_do_not_see_each_other(train):
    """One update over all rows, packed or not, on every path: the same loss and the same gradient."""
    settings = {
        "config.hyperparams.training.microBatchPerGpu": 8,
        "config.hyperparams.training.gradientAccumulation": 1,
        "config.hyperparams.training.maxSteps": 1,
    }
    rows = tiny.ticket_rows(8)
    apart = train(rows, **settings)
    for strict in (False, True):
        packed = train(rows, **settings, **{"config.data.packing": True, "strict": strict})
        assert tiny.events_of(packed, "plan_size")[0]["sequences"] < 8
        assert jobs.metrics(packed, "loss") == pytest.approx(jobs.metrics(apart, "loss"), rel=1e-5)
        assert jobs.metrics(packed, "grad_norm") == pytest.approx(jobs.metrics(apart, "grad_norm"), rel=1e-4)


@pytest.mark.requirement("R143")
def test_checkpointing_changes_no_loss_on_any_path(train):
    for strict in (False, True):
        plain = jobs.metrics(train(strict=strict), "loss")
        recomputed = train(strict=strict, **{"config.model.gradientCheckpointing": True})
        assert jobs.metrics(recomputed, "loss") == pytest.approx(plain, rel=1e-5)
        assert tiny.events_of(recomputed, "engine_config")[0]["resolved"]["gradientCheckpointing"] is True


@pytest.mark.requirement("R144", "R145")
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_attention_that_is_named_computes(train, attention):
    attempt = train(**{"config.model.attentionImplementation": attention, "strict": True})
    assert tiny.events_of(attempt, "engine_config")[0]["resolved"]["attention"] == attention


@pytest.mark.requirement("R141")
def test_int4_trains_against_a_quantized_base(train):
    pytest.importorskip("bitsandbytes")
    attempt = train(**{"config.model.precision": "INT4", "config.hyperparams.training.maxSteps": 2})
    whole = train(**{"config.hyperparams.training.maxSteps": 2})
    assert tiny.events_of(attempt, "finished")
    assert jobs.metrics(attempt, "loss") != jobs.metrics(whole, "loss")
    weights = load_file(train_folder(attempt) / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_a_missing_base_model_fails_by_name(train, tmp_path):
    assert jobs.failure(train(**{"base_model.folder": str(tmp_path / "gone")}))["code"] == "base_model_missing"


@pytest.mark.requirement("R138")
def test_a_mask_column_that_no_row_carries_is_refused(train):
    failed = jobs.failure(train(**{"config.loss.explicitLossMaskColumn": "weights"}))
    assert "No row of the training dataset carries a mask in weights" in failed["reason"]


def test_hyperparameters_are_told_with_a_digest(train):
    one, other = (tiny.events_of(train(**{"config.hyperparams.lora.rank": rank}), "hparams")[0] for rank in (4, 8))
    assert one["values"]["lora.rank"] == 4
    assert one["sha"] != other["sha"]


def test_figures_of_an_update_are_told(train):
    values = tiny.events_of(train(), "metrics")[0]["values"]
    assert values["tokens"] > values["trained_tokens"] > 0
    assert values["tokens_per_second"] > 0
    assert values["step_seconds"] > 0
    assert values["peak_memory_bytes"] > 1e6
    assert 0 <= values["mean_token_accuracy"] <= 1


@pytest.mark.requirement("R366")
def test_the_highest_peak_is_told_in_its_parts(train):
    values = tiny.events_of(train(), "metrics")[0]["values"]
    parts = {name: size for name, size in values.items() if name.startswith("memory_")}
    assert set(parts) == {f"memory_{part}_bytes" for part in ("weights", "adapter", "gradients", "optimizer", "rest")}
    assert sum(parts.values()) == values["peak_memory_bytes"]
    assert parts["memory_weights_bytes"] > parts["memory_adapter_bytes"] == parts["memory_gradients_bytes"] > 0
    assert 2 * parts["memory_adapter_bytes"] <= parts["memory_optimizer_bytes"] < 3 * parts["memory_adapter_bytes"]


@pytest.mark.requirement("R366")
def test_on_a_gpu_the_peak_is_told_by_activations_allocator_and_driver_too(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (500, 2000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 1200)
    model = torch.nn.Linear(10, 5, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())
    peaks = {"peak_memory_bytes": 1000, "peak_memory_reserved_bytes": 1250}
    split = MemorySplit()
    assert split.of(peaks, model, optimizer) == {
        "memory_weights_bytes": 0, "memory_adapter_bytes": 200, "memory_gradients_bytes": 200,
        "memory_optimizer_bytes": 0, "memory_activations_bytes": 600, "memory_allocator_bytes": 250,
        "memory_driver_bytes": 300}  # fmt: skip
    assert not split.of(peaks, model, optimizer)
