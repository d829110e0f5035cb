"""Resolving: every default of the loop that runs, the hash, and the sized batch."""

import pytest

from runs.facts import DeviceFacts
from runs.resolve import size_passes
from tests.unit.resolving import make_dataset_facts, make_entry, make_facts, problems, resolved

EVERY_DEFAULT = {
    "method": "sft", "maxSeqLength": 2048,
    "hyperparams": {
        "lora": {"rank": 8, "alpha": 16, "dropout": 0, "targetModules": "default", "adaptExperts": False},
        "optimizer": {"kind": "adamw", "learningRate": 0.0001, "weightDecay": 0, "maxGradNorm": 1},
        "scheduler": {"kind": "linear", "warmupRatio": 0, "minLearningRateRatio": 0},
        "training": {"epochs": 3, "maxSteps": 0, "microBatchPerGpu": 2, "gradientAccumulation": 4,
                     "validationFrequencySteps": 100, "seed": 42}},
    "model": {"precision": "BF16", "gradientCheckpointing": False, "attentionImplementation": "sdpa"},
    "data": {"truncation": "error", "packing": False, "shuffle": True},
    "loss": {"assistantTurns": "last", "trainOnToolCalls": True, "trainOnToolResults": False},
}


# Defaults ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R056", "R057", "R063", "R064", "R065", "R066", "R068", "R069", "R070", "R071", "R072", "R073",
                         "R074", "R075", "R076", "R083", "R084", "R087", "R088", "R090", "R129", "R131", "R132",
                         "R141", "R144", "R145")
def test_a_descriptor_that_names_a_dataset_resolves_to_every_default():
    config = resolved().config
    training = EVERY_DEFAULT["hyperparams"]["training"] | {"maxSteps": None}
    assert config["hyperparams"] == EVERY_DEFAULT["hyperparams"] | {"training": training}
    assert config["model"] == EVERY_DEFAULT["model"]
    assert config["data"] == EVERY_DEFAULT["data"] | {"validationDataset": None}
    assert config["loss"] == EVERY_DEFAULT["loss"] | {"explicitLossMaskColumn": None}
    assert (config["method"], config["maxSeqLength"]) == ("sft", 2048)


@pytest.mark.requirement("R161", "R165", "R169")
def test_execution_defaults():
    assert resolved().execution == {
        "gpus": 1, "rolloutGpus": 0, "microBatchSequences": None, "saveEvery": None, "keepAdapters": 5,
        "keepTrainingStates": 2, "resumableSaveEvery": 10, "resumableSaveMinutes": 5, "deviceProfile": "cpu",
        "engine": "trl", "hostMemoryGiB": None}


@pytest.mark.requirement("R058", "R082")
def test_stating_every_default_and_omitting_them_hash_alike():
    assert resolved(EVERY_DEFAULT).config_hash == resolved().config_hash


@pytest.mark.parametrize("change", [
    {"maxSeqLength": 1024}, {"hyperparams": {"lora": {"rank": 4}}}, {"hyperparams": {"training": {"seed": 7}}},
    {"model": {"gradientCheckpointing": True}}, {"data": {"shuffle": False}}, {"loss": {"assistantTurns": "all"}},
    {"hyperparams": {"training": {"microBatchPerGpu": 1}}}])
@pytest.mark.requirement("R049")
def test_every_configuration_field_moves_the_hash(change):
    assert resolved(change).config_hash != resolved().config_hash


@pytest.mark.requirement("R161", "R047")
def test_execution_settings_and_notes_stay_outside_the_hash():
    other = resolved(execution={"saveEvery": 7, "keepAdapters": 1, "microBatchSequences": 1}, description="x",
                     configName="y", submissionId="z")
    assert other.config_hash == resolved().config_hash


def test_another_name_for_the_same_examples_gives_the_same_hash():
    renamed = make_facts(dataset=make_dataset_facts(stated="other", reference="x/other:v9", version_id="2" * 64))
    assert resolved(facts=renamed).config_hash == resolved().config_hash


def test_other_examples_give_another_hash():
    assert resolved(facts=make_facts(dataset=make_dataset_facts("c" * 64))).config_hash != resolved().config_hash


@pytest.mark.requirement("R061")
def test_zero_takes_the_default_in_every_supervised_group():
    zeroed = {"hyperparams": {"lora": {"rank": 0, "alpha": 0, "dropout": 0},
                              "optimizer": {"learningRate": 0, "weightDecay": 0, "maxGradNorm": 0},
                              "scheduler": {"warmupRatio": 0, "minLearningRateRatio": 0},
                              "training": {"epochs": 0, "maxSteps": 0, "microBatchPerGpu": 0, "gradientAccumulation": 0,
                                           "validationFrequencySteps": 0, "seed": 0}}, "maxSeqLength": 0}
    assert resolved(zeroed).config == resolved().config


@pytest.mark.requirement("R060")
@pytest.mark.parametrize(("method", "group", "field", "value", "expected"), [
    ("sft", "optimizer", "maxGradNorm", 2,
     {"kind": "adamw", "learningRate": 0.0001, "weightDecay": 0, "maxGradNorm": 2}),
    ("grpo", "optimizer", "maxGradNorm", 2,
     {"kind": "adamw", "learningRate": 0.00001, "weightDecay": 0.01, "maxGradNorm": 2}),
    ("gspo", "scheduler", "warmupRatio", 0.1, {"kind": "constant", "warmupRatio": 0.1, "minLearningRateRatio": 0})])
def test_stating_one_field_of_a_group_leaves_the_rest_at_the_loop_s_defaults(method, group, field, value, expected):
    name = "hyperparams" if method == "sft" else "rlHyperparams"
    assert resolved({"method": method, name: {group: {field: value}}}).config[name][group] == expected


@pytest.mark.requirement("R064")
@pytest.mark.parametrize(("lora", "alpha"), [({"rank": 32}, 64), ({"rank": 4, "alpha": 3}, 3), ({"alpha": 2.5}, 2.5)])
def test_alpha_is_twice_the_rank_unless_stated(lora, alpha):
    assert resolved({"hyperparams": {"lora": lora}}).config["hyperparams"]["lora"]["alpha"] == alpha


@pytest.mark.requirement("R077", "R079", "R080", "R081", "R082")
@pytest.mark.parametrize(("micro", "accumulation", "length", "expected"), [
    (None, None, 256, (8, 1)), (None, None, 512, (8, 1)), (None, None, 513, (4, 2)), (None, None, 1024, (4, 2)),
    (None, None, 2048, (2, 4)), (None, None, 4096, (1, 8)), (None, None, 32768, (1, 8)),
    (2, None, 2048, (2, 4)), (3, None, 2048, (3, 3)), (16, None, 2048, (16, 1)),
    (None, 2, 2048, (4, 2)), (None, 3, 2048, (3, 3)), (None, 16, 2048, (1, 16)), (4, 5, 2048, (4, 5))])
def test_the_halves_of_a_batch_are_sized(micro, accumulation, length, expected):
    assert size_passes(micro, accumulation, length) == expected
    stated = {"microBatchPerGpu": micro, "gradientAccumulation": accumulation}
    facts = make_facts(entry=make_entry(context_length=40_000))
    found = resolved({"maxSeqLength": length, "hyperparams": {"training": stated}}, facts=facts).config
    training = found["hyperparams"]["training"]
    assert (training["microBatchPerGpu"], training["gradientAccumulation"]) == expected


def test_a_preference_pair_counts_as_two_sequences_of_a_pass():
    training = resolved({"method": "dpo"}).config["hyperparams"]["training"]
    assert (training["microBatchPerGpu"], training["gradientAccumulation"]) == (1, 8)


@pytest.mark.requirement("R143")
@pytest.mark.parametrize(("config", "expected"), [
    ({"maxSeqLength": 4096}, False), ({"maxSeqLength": 4097}, True), ({"method": "dpo"}, True),
    ({"maxSeqLength": 8192, "model": {"gradientCheckpointing": False}}, False)])
def test_checkpointing_is_derived_and_hashed(config, expected):
    facts = make_facts(entry=make_entry(context_length=40_000))
    assert resolved(config, facts=facts).config["model"]["gradientCheckpointing"] is expected


@pytest.mark.requirement("R143")
def test_the_derived_checkpointing_hashes_as_the_stated_one():
    facts = make_facts(entry=make_entry(context_length=40_000))
    stated = {"maxSeqLength": 8192, "model": {"gradientCheckpointing": True}}
    assert resolved(stated, facts=facts).config_hash == resolved({"maxSeqLength": 8192}, facts=facts).config_hash


def test_settings_that_trl_ignores_are_absent():
    found = resolved()
    assert "weightPrecision" not in found.config["model"]
    assert not {"rollout", "memory"} & set(found.execution)


def test_the_steps_of_a_run_are_known_before_it_starts():
    assert resolved().total_steps == 39
    assert resolved({"hyperparams": {"training": {"maxSteps": 5}}}).total_steps == 5
    assert resolved({"data": {"packing": True}}).total_steps is None


@pytest.mark.requirement("R263", "R264", "R269")
def test_a_preference_run_resolves_to_its_defaults():
    facts = make_facts(dataset=make_dataset_facts(format="preference-jsonl-v1"))
    assert problems({"method": "dpo"}, facts=facts) == {}
    short, long = (resolved({"method": "dpo", "maxSeqLength": length}, facts=facts).config for length in (1024, 1025))
    assert short["preference"] == {"beta": 0.1, "lossType": "sigmoid", "fusedLoss": True}
    zero = {"method": "dpo", "maxSeqLength": 1024, "preference": {"beta": 0}}
    assert resolved(zero, facts=facts).config == short, "a beta of zero is the default"
    assert long["preference"]["fusedLoss"] is False
    assert (short["hyperparams"]["training"]["microBatchPerGpu"], short["model"]["gradientCheckpointing"]) == (2, True)
    off = resolved({"method": "dpo", "model": {"gradientCheckpointing": False}}, facts=facts)
    assert off.config["model"]["gradientCheckpointing"] is False


@pytest.mark.requirement("R046", "R195")
def test_a_smoke_check_resolves_to_its_defaults_and_its_updates_are_the_runs():
    assert resolved().smoke is None
    found = resolved({"hyperparams": {"training": {"maxSteps": 7}}}, smoke={"sliceSize": 50, "threshold": 1})
    assert found.problems == ()
    assert found.smoke == {"sliceSize": 50, "maxSteps": 2000, "threshold": 1}
    assert found.total_steps == 2000
    assert found.config_hash == resolved({"hyperparams": {"training": {"maxSteps": 7}}}).config_hash


def test_devices_share_the_passes_evenly():
    several = make_facts(devices=(DeviceFacts("h200", "cuda", 4, 100.0),))
    found = [problem for problem in resolved(execution={"gpus": 3}, facts=several).problems
             if problem.path == "training.gradientAccumulation"]
    assert [(problem.code, problem.hint) for problem in found] == [("uneven_passes", "State 3 or 6.")]


def test_an_accelerator_is_chosen_before_the_processors():
    both = make_facts(devices=(DeviceFacts("h200", "cuda", 1, 9.0), DeviceFacts("cpu", "cpu", 1, 9.0)))
    assert resolved(facts=both).execution["deviceProfile"] == "h200"
    assert resolved(facts=both, execution={"deviceProfile": "cpu"}).execution["deviceProfile"] == "cpu"


@pytest.mark.parametrize(("config", "stated", "is_told"), [
    ({}, {"pauseAtStep": 39}, True), ({}, {"pauseAtStep": 38}, False), ({}, {"pauseAtStep": 0}, False),
    ({"hyperparams": {"training": {"maxSteps": 5}}}, {"pauseAtStep": 5}, True),
    ({"data": {"packing": True}}, {"pauseAtStep": 10_000}, False),
    ({}, {"smoke": {"maxSteps": 7}, "pauseAtStep": 7}, True),
    ({"method": "grpo", "rlHyperparams": {"maxSteps": 3}}, {"grader": "exact", "pauseAtStep": 3}, True),
])
def test_a_pause_that_never_comes_is_told(config, stated, is_told):
    codes = [warning["code"] for warning in resolved(config, **stated).warnings]
    assert ("pause_never_comes" in codes) == is_told
