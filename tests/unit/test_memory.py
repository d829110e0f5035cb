"""The peak memory of a run from its model's shape and settings."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runs.memory import SHARING_DECODERS, Shape, largest_group, largest_pass, predict, shape_of
from runs.shapes import shape_at
from tests.unit.resolving import resolved

SMOLLM = {"num_attention_heads": 9, "hidden_size": 576, "head_dim": 64, "num_hidden_layers": 30,
          "intermediate_size": 1536, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True}
PARAMETERS = 134_515_008
CHILD = Path(__file__).resolve().parents[2] / "gpu_worker" / "child" / "optimize_child"
SHAPE = shape_of(SMOLLM)
ADAPTER = 2_442_240
"""Trained parameters that PEFT counts for rank 8 over every linear module of this model."""


def predicted(config: dict[str, Any] | None = None, *, kind: str = "cpu", longest: int | None = None,
              parameters: int | None = PARAMETERS, shape: Shape | None = SHAPE,
              trained: float | None = None) -> Any:
    found = resolved(config)
    return predict(found.config, found.execution, kind=kind, parameters=parameters, shape=shape, longest_row=longest,
                   trained_share=trained)


def test_the_adapter_its_gradients_and_its_moments_are_exact():
    parts = predicted().parts
    assert parts["adapter"] == parts["gradients"] == ADAPTER * 4
    assert parts["optimizer"] == ADAPTER * 8


def test_weights_are_fp32_on_a_processor_and_bf16_or_4_bit_on_a_gpu():
    assert predicted().parts["weights"] == PARAMETERS * 4
    assert predicted(kind="cuda").parts["weights"] == PARAMETERS * 2
    quantized = predicted({"model": {"precision": "INT4"}}, kind="cuda").parts["weights"]
    embeddings = 49152 * 576
    assert quantized == round((PARAMETERS - embeddings) * 0.5625) + embeddings * 2


def test_activations_follow_the_tokens_of_a_pass_and_checkpointing_keeps_fewer():
    whole, half = predicted({"maxSeqLength": 2048}), predicted({"maxSeqLength": 2048}, longest=1024)
    assert half.parts["activations"] * 2 == whole.parts["activations"]
    kept = predicted({"maxSeqLength": 2048, "model": {"gradientCheckpointing": True}}).parts["activations"]
    assert kept < whole.parts["activations"] / 2


def test_the_whole_is_the_sum_of_its_parts():
    found = predicted()
    assert found.total == sum(found.parts.values())
    assert found.source == "computed"


@pytest.mark.parametrize(("length", "trained", "checkpointing", "gib"), [
    (132, 19, False, 1.60), (241, 18, False, 2.06), (491, 18, False, 3.18), (492, 903, False, 4.05),
    (241, 18, True, 1.48)])
def test_passes_that_were_watched_are_predicted_within_a_twentieth(length, trained, checkpointing, gib):
    """Peaks of one update of SmolLM2-135M at rank 8, two rows a pass, on two cores."""
    training = {"training": {"microBatchPerGpu": 2, "gradientAccumulation": 1}}
    config = {"hyperparams": training, "model": {"gradientCheckpointing": checkpointing}}
    found = predicted(config, longest=length, trained=trained / (2 * length))
    assert found.total / 2**30 == pytest.approx(gib, rel=0.05)


@pytest.mark.parametrize("config", [SMOLLM | {"num_local_experts": 8}, {"hidden_size": 8}, {}])
def test_a_shape_that_is_not_known_leaves_the_parts_that_need_it_untold(config):
    found = predicted(shape=shape_of(config))
    assert (found.parts["activations"], found.total, found.source) == (None, None, "unknown")
    assert found.parts["weights"] == PARAMETERS * 4
    assert found.note


def test_the_text_part_of_a_model_of_images_gives_its_shape():
    found = shape_of({"text_config": SMOLLM, "vision_config": {}})
    assert found == replace(SHAPE, has_plain_head=False, shares_prompts=False)


def test_a_pass_carries_its_sequences_and_no_more_than_the_execution_allows():
    training = {"hyperparams": {"training": {"microBatchPerGpu": 4}}, "maxSeqLength": 1000}
    found = resolved(training, execution={"microBatchSequences": 2})
    assert largest_pass(found.config, found.execution, None) == (2, 1000)
    assert largest_pass(found.config, found.execution, 100) == (2, 100)


def test_what_the_prediction_takes_for_granted_is_said():
    assert "every row as long as maxSeqLength" in predicted().note
    assert "every linear module" in predicted({"hyperparams": {"lora": {"targetModules": ".*q_proj"}}}).note
    assert "Not measured on GPUs" in predicted(kind="cuda").note


SHORT = {"method": "dpo", "maxSeqLength": 512}
KEPT = SHORT | {"preference": {"fusedLoss": False}}


@pytest.mark.requirement("R269")
def test_a_pair_is_two_sequences_and_a_processor_takes_pairs_one_at_a_time():
    config, whole = resolved(SHORT).config, resolved(KEPT).config
    assert config["hyperparams"]["training"]["microBatchPerGpu"] == 4
    assert largest_pass(config, {}, 300) == (2, 300)
    assert largest_pass(whole, {}, 300) == (8, 300)
    assert [largest_pass(whole, {"microBatchSequences": most}, 300)[0] for most in (9, 6, 5, 1)] == [8, 6, 4, 2]
    assert predicted(KEPT).parts["activations"] > 2 * predicted(SHORT).parts["activations"]


@pytest.mark.requirement("R268")
def test_on_a_gpu_pairs_go_through_together_and_the_head_holds_the_logits_of_one():
    assert largest_pass(resolved(SHORT).config, {}, 300, "cuda") == (8, 300)

    def activations(config, trained):
        return predicted(config, kind="cuda", longest=300, trained=trained).parts["activations"]

    logit_bytes = 3 * SHAPE.vocabulary * 4
    assert activations(KEPT, 1.0) - activations(SHORT, 1.0) == pytest.approx((8 - 2) * 300 * logit_bytes, rel=1e-6)
    assert activations(SHORT, 1.0) - activations(SHORT, 0.6) == pytest.approx(0.4 * 600 * logit_bytes, rel=1e-6)
    assert activations(SHORT, 0.1) == activations(SHORT, 0.5)
    single = SHORT | {"hyperparams": {"training": {"microBatchPerGpu": 1}}}
    assert activations(single, 0.1) == activations(single, 1.0) > 600 * logit_bytes


@pytest.mark.requirement("R268")
@pytest.mark.parametrize("more", [{"final_logit_softcapping": 30.0}, {"vision_config": {}}, {"logits_scaling": 8}])
def test_on_a_gpu_pairs_of_a_model_whose_loss_is_not_fused_go_one_at_a_time_with_all_their_logits(more):
    assert shape_of(SMOLLM | {"logits_scaling": 1, "final_logit_softcapping": None}) == SHAPE
    single = SHORT | {"hyperparams": {"training": {"microBatchPerGpu": 1}}}
    of_one = predicted(single, kind="cuda", longest=300, trained=0.1)
    found = predicted(SHORT, kind="cuda", longest=300, trained=0.1, shape=shape_of(SMOLLM | more))
    assert found.parts["activations"] == of_one.parts["activations"]
    kept = [predicted(KEPT, kind="cuda", longest=300, shape=shape_of(each)) for each in (SMOLLM, SMOLLM | more)]
    assert kept[0].parts == kept[1].parts


def test_a_reinforcement_pass_is_a_prompt_with_its_group_behind_it():
    def parts(*, longest=None, sequences=None, **rl):
        found = resolved({"method": "grpo", "rlHyperparams": rl}, execution={"microBatchSequences": sequences})
        return predict(found.config, found.execution, kind="cpu", parameters=PARAMETERS, shape=SHAPE,
                       longest_row=longest).parts

    assert largest_group(resolved({"method": "grpo"}).config, {}, None) == (2048 - 256, 4 * 256)
    assert largest_group(resolved({"method": "grpo"}).config, {"microBatchSequences": 3}, 100) == (100, 3 * 256)
    assert parts(longest=100, sequences=1)["activations"] < parts(longest=100)["activations"] / 2
    assert parts(longest=100)["adapter"] == ADAPTER * 4


def test_sampling_counts_for_what_it_holds_beyond_an_update():
    found = resolved({"method": "grpo", "rlHyperparams": {"groupSize": 2, "maxCompletionLength": 16},
                      "model": {"gradientCheckpointing": True}})
    sampled = predict(found.config, found.execution, kind="cpu", parameters=PARAMETERS, shape=SHAPE, longest_row=20)
    assert sampled.parts["generation"] > 0
    assert sampled.total == sum(sampled.parts.values())
    assert "every completion as long as it may be" in sampled.note


def test_on_a_gpu_each_completion_of_a_pass_stands_behind_its_own_copy_of_the_prompt():
    found = resolved({"method": "grpo", "rlHyperparams": {"groupSize": 8, "maxCompletionLength": 16}})
    assert largest_group(found.config, {}, 400, is_shared=False) == (8 * 400, 8 * 16)
    alone = resolved({"method": "grpo", "rlHyperparams": {"groupSize": 8, "maxCompletionLength": 16}},
                     execution={"microBatchSequences": 1})
    of_one, of_all = (predict(each.config, each.execution, kind="cuda", parameters=PARAMETERS, shape=SHAPE,
                              longest_row=400).parts["activations"] for each in (alone, found))
    assert of_all == pytest.approx(8 * of_one, rel=0.001)


@pytest.mark.parametrize(("more", "shares"), [
    ({"model_type": "llama"}, True), ({"model_type": "phi3"}, False), ({"vision_config": {}}, False),
    ({"attention_dropout": 0.1}, False), ({"sliding_window": 4096}, False),
    ({"sliding_window": 4096, "use_sliding_window": False}, True), ({"layer_types": ["sliding_attention"]}, False)])
def test_a_processor_shares_prompts_of_the_architectures_that_the_job_does(more, shares):
    assert shape_of(SMOLLM | more).shares_prompts is shares
    job = runpy.run_path(str(CHILD / "training" / "compute_path.py"))
    assert set(SHARING_DECODERS) == job["CAUSAL_DECODERS"]


def test_a_box_that_computes_strictly_shares_no_prompts(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM))
    prepared = SimpleNamespace(folder=tmp_path)
    assert shape_at(prepared) == SHAPE
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_STRICT_COMPUTE", "true")
    assert shape_at(prepared) == APART


APART = replace(SHAPE, shares_prompts=False)


def test_where_a_processor_shares_no_prompts_a_group_has_a_copy_for_each_completion_and_is_sampled_at_once():
    rl = {"groupSize": 8, "promptsPerStep": 8, "maxCompletionLength": 16}
    config = {"method": "grpo", "rlHyperparams": rl, "model": {"gradientCheckpointing": True}}
    kept_a_token = (SHAPE.hidden * SHAPE.layers + SHAPE.kept_a_token) * 4 * 2
    parts = predicted(config, longest=100, shape=APART).parts
    of_completions = 8 * 16 * 8 * 32_768 * 4
    assert parts["activations"] == 8 * (100 + 16) * kept_a_token + of_completions
    a_completion = (100 + 16) * 2 * SHAPE.key * SHAPE.layers * 4 + SHAPE.vocabulary * 24
    assert parts["generation"] == max(0, 64 * a_completion - parts["activations"])
    assert parts["generation"] + parts["activations"] > predicted(config, longest=100).parts["activations"]


@pytest.mark.parametrize("more", [{}, {"hyperparams": {"lora": {"dropout": 0.1}}},
                                  {"model": {"attentionImplementation": "eager"}}])
def test_where_a_processor_shares_no_prompts_a_pair_has_all_its_logits(more):
    wide = replace(SHAPE, vocabulary=151_936)
    apart = wide if more else replace(wide, shares_prompts=False)
    found = [predicted(SHORT | more, longest=300, trained=share, shape=apart).parts["activations"]
             for share in (0.1, 1.0)]
    assert found[0] == found[1] > 600 * 3 * wide.vocabulary * 4
    assert predicted(SHORT, longest=300, trained=0.1, shape=wide).parts["activations"] < found[0]


def sampling(*, kind: str = "cpu", longest: int | None = None, prompts: int = 16) -> int:
    """What sampling holds, where an update's passes are small beside it."""
    rl = {"groupSize": 4, "promptsPerStep": prompts, "maxCompletionLength": 16}
    found = resolved({"method": "grpo", "rlHyperparams": rl, "model": {"gradientCheckpointing": True}},
                     execution={"microBatchSequences": 1})
    parts = predict(found.config, found.execution, kind=kind, parameters=PARAMETERS, shape=SHAPE,
                    longest_row=longest).parts
    return parts["generation"] + parts["activations"]


def test_a_sampled_completion_is_held_with_the_longest_prompt_where_that_is_known():
    a_token = 2 * SHAPE.key * SHAPE.layers * 4
    assert sampling(longest=100) == 32 * ((100 + 16 + 64) * a_token + SHAPE.vocabulary * 24)
    assert sampling() == 32 * ((2048 + 64) * a_token + SHAPE.vocabulary * 24)


def test_a_processor_samples_32_completions_at_once_and_a_gpu_all_of_an_update():
    assert sampling(prompts=16) == sampling(prompts=8)
    assert sampling(kind="cuda", prompts=16) == 2 * sampling(kind="cuda", prompts=8)


@pytest.mark.parametrize(("group", "prompt", "completion", "least", "gib"), [(4, 100, 64, 0.9, 2.15),
                                                                            (2, 400, 16, 0.95, 2.22)])
def test_a_reinforcement_run_that_was_watched_stayed_just_below_its_prediction(group, prompt, completion, least, gib):
    """The peak of an update of SmolLM2-135M at rank 8 on two cores, whose completions were a little shorter."""
    config = {"method": "grpo", "maxSeqLength": prompt + completion,
              "rlHyperparams": {"groupSize": group, "promptsPerStep": 2, "maxCompletionLength": completion}}
    found = resolved(config)
    predicted = predict(found.config, found.execution, kind="cpu", parameters=PARAMETERS, shape=SHAPE,
                        longest_row=prompt)
    assert least * predicted.total <= gib * 2**30 <= predicted.total
