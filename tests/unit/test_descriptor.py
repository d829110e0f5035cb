"""Reading a run descriptor: strict, every problem at once, each named as the person wrote it."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimize_site.kernel.documents import (
    MAX_CHARACTERS,
    MAX_YAML_VALUES,
    Loader,
    PythonEvents,
    Strict,
    parse_document,
)
from optimize_site.kernel.errors import InvalidInput, TooLarge
from runs.descriptor import MAX_PROBLEMS, parse_descriptor, reference_rows
from tests.unit.resolving import document

SEED_EXAMPLE = {
    "kind": "run", "workload": "support-triage", "baseModel": "unsloth/Llama-3.2-1B-Instruct",
    "config": {"dataset": "support-triage-train", "method": "sft",
               "hyperparams": {"lora": {"rank": 8}, "optimizer": {"learningRate": 0.0001}, "training": {"epochs": 2}},
               "maxSeqLength": 2048, "model": {"precision": "BF16"}},
    "execution": {"gpus": 1, "saveEvery": 20, "keepAdapters": 4},
    "description": "two epochs at rank 8", "configName": "r8-e2",
}
GSM8K_EXAMPLE = {
    "kind": "run", "workload": "gsm8k", "configName": "grpo-100-steps", "baseModel": "Qwen/Qwen3-0.6B",
    "config": {"dataset": "gsm8k-train", "method": "grpo",
               "rlHyperparams": {"epochs": 1, "maxSteps": 100, "groupSize": 8, "klBeta": 0.001, "temperature": 1.0,
                                 "maxCompletionLength": 512, "lora": {"rank": 32}, "optimizer": {"learningRate": 1e-5}},
               "reward": {"terms": [{"kind": "rule", "weight": 1.0, "bundle": "gsm8k-scoring", "module": "reward"}]},
               "maxSeqLength": 1536},
    "execution": {"gpus": 1, "saveEvery": 10, "keepAdapters": 4},
}


def problems_of(body):
    return {problem.path: problem for problem in parse_descriptor(body).problems}


def codes_of(config, **stated):
    return {path: problem.code for path, problem in problems_of(document(config, **stated)).items()}


@pytest.mark.requirement("R037", "R038", "R040", "R041", "R047")
@pytest.mark.parametrize("example", [SEED_EXAMPLE, GSM8K_EXAMPLE], ids=["triage", "gsm8k"])
def test_the_documented_descriptors_are_read_without_a_problem(example):
    parsed = parse_descriptor(example)
    assert parsed.problems == ()
    assert parsed.descriptor.workload == example["workload"]
    assert parsed.descriptor.config_name == example["configName"]
    assert parsed.descriptor.execution.save_every == example["execution"]["saveEvery"]


@pytest.mark.requirement("R036")
def test_json_and_yaml_spell_the_same_descriptor():
    yaml = """
    kind: run
    workload: triage
    config:
      dataset: train
      hyperparams: {optimizer: {learningRate: 1e-4}, training: {epochs: 2}}
    """
    body = {"kind": "run", "workload": "triage", "config": {"dataset": "train", "hyperparams": {
        "optimizer": {"learningRate": 0.0001}, "training": {"epochs": 2}}}}
    assert parse_document(yaml) == body == parse_document(json.dumps(body, indent="\t"))


@pytest.mark.parametrize("text", ['{"kind": "run", "kind": "run"}', "kind: run\nkind: run", '{"a": NaN}', '{"a": 1',
                                  "a: [1", "[" * 100_000, "a: &x [1]\nb: *x", "a: !!python/object:os.system x",
                                  "9" * 5000, "a: " + "9" * 5000, "a: !!binary aGk=", "a: !!set {b}", "1: a", "~: a",
                                  "? [a]\n: b", '{"a":' * 500 + "1" + "}" * 500, "[" * 400 + "]" * 400])
def test_a_document_that_cannot_be_read_one_way_is_refused(text):
    with pytest.raises(InvalidInput) as info:
        parse_document(text)
    assert info.value.code == "malformed_document"


def test_a_document_longer_than_any_descriptor_is_refused_before_it_is_read():
    with pytest.raises(TooLarge):
        parse_document("# " + "x" * MAX_CHARACTERS)


@pytest.mark.parametrize("text", ["\n".join(f"k{n}: 1" for n in range(MAX_YAML_VALUES // 2 - 1)),
                                  "{" + ",".join(f'"k{n}": 1' for n in range(40_000)) + "}"])
def test_a_long_document_takes_no_longer_than_in_proportion(text):
    began = time.process_time()
    problems = parse_descriptor(parse_document(text)).problems
    assert time.process_time() - began < 5
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].code == "more_problems"


@pytest.mark.parametrize("text", ["- 1\n" * MAX_YAML_VALUES, "x: [" + "a, " * MAX_YAML_VALUES + "b]",
                                  "\n".join(f"- &a{n} x" for n in range(MAX_YAML_VALUES))])
def test_yaml_of_more_values_than_any_descriptor_is_refused_before_it_costs_much(text):
    with pytest.raises(TooLarge, match="too many for YAML"):
        parse_document(text)


@pytest.mark.parametrize("text", ["a: on\nb: [1, 1.5e3, 'x', ~, true]\nc: |\n  two\n  lines\n", "a: 1\na: 2",
                                  "a: &x 1\nb: *x", "a: !!binary aGk=", "1: a", "a: 2024-01-01", "a: [1", "a: \ud800",
                                  "a: b: c", "\ta: 1"])
def test_yaml_means_the_same_whichever_library_reads_its_characters(text, monkeypatch):
    class Slow(Strict, PythonEvents):
        def __init__(self, text):
            PythonEvents.__init__(self, text)
            Strict.__init__(self)

    assert not issubclass(Loader, PythonEvents), "libyaml is not here: this test compares nothing"
    fast = meaning_of(text)
    monkeypatch.setattr("optimize_site.kernel.documents.Loader", Slow)
    assert meaning_of(text) == fast


def meaning_of(text):
    try:
        return parse_document(text)
    except InvalidInput as refused:
        return refused.code


def test_a_key_written_twice_at_the_end_of_many_is_found_at_once():
    began = time.process_time()
    with pytest.raises(InvalidInput, match="k29999"):
        parse_document("{" + ",".join(f'"k{n}": 1' for n in range(30_000)) + ', "k29999": 2}')
    assert time.process_time() - began < 5


def test_yaml_words_and_dates_stay_what_was_written():
    assert parse_document("a: on\nb: 2024-01-01\nc: 1_000\nd: true\ne: 12") == {
        "a": "on", "b": "2024-01-01", "c": "1_000", "d": True, "e": 12}


@pytest.mark.requirement("R059")
def test_a_hyperparameter_is_named_by_its_group_and_other_fields_from_the_top():
    found = codes_of({"hyperparams": {"optimizer": {"weightDecay": -1}, "lora": {"rank": "8"}}, "maxSeqLength": "long",
                      "rlHyperparams": {"optimizer": {"learningRate": True}, "klBeta": -1}}, execution={"gpus": 1.5})
    assert found == {"optimizer.weightDecay": "negative_number", "lora.rank": "wrong_kind",
                     "config.maxSeqLength": "wrong_kind", "optimizer.learningRate": "wrong_kind",
                     "config.rlHyperparams.klBeta": "negative_number", "execution.gpus": "wrong_kind"}


@pytest.mark.requirement("R062", "R070")
@pytest.mark.parametrize(("group", "field"), [
    ("lora", "rank"), ("lora", "alpha"), ("lora", "dropout"), ("optimizer", "learningRate"),
    ("optimizer", "weightDecay"), ("optimizer", "maxGradNorm"), ("scheduler", "warmupRatio"),
    ("scheduler", "minLearningRateRatio"), ("training", "epochs"), ("training", "maxSteps"),
    ("training", "microBatchPerGpu"), ("training", "gradientAccumulation"), ("training", "validationFrequencySteps"),
    ("training", "seed")])
def test_a_negative_number_is_refused_and_names_its_field(group, field):
    problem = problems_of(document({"hyperparams": {group: {field: -1}}}))[f"{group}.{field}"]
    assert (problem.code, problem.message) == ("negative_number", f"{group}.{field} is -1; it must not be negative.")


@pytest.mark.requirement("R065", "R073")
@pytest.mark.parametrize(("group", "field"), [("lora", "dropout"), ("scheduler", "warmupRatio")])
def test_a_share_must_be_below_one(group, field):
    assert codes_of({"hyperparams": {group: {field: 1}}}) == {f"{group}.{field}": "out_of_range"}
    assert codes_of({"hyperparams": {group: {field: 0.999}}}) == {}


@pytest.mark.requirement("R089")
@pytest.mark.parametrize("field", ["format", "chatTemplate"])
@pytest.mark.parametrize("place", ["config", "data"])
def test_a_format_or_a_template_is_unknown_wherever_it_is_written(field, place):
    found = problems_of(document({field: "x"} if place == "config" else {"data": {field: "x"}}))
    (problem,) = found.values()
    assert problem.code == "unknown_field"
    assert field in problem.message
    assert problem.hint


@pytest.mark.parametrize(("config", "hint"), [
    ({"hyperparams": {"optimizer": {"learnigRate": 1}}}, "Did you mean learningRate?"),
    ({"learningRate": 1}, "It belongs in config.hyperparams.optimizer.learningRate"),
    ({"methd": "sft"}, "Did you mean method?"),
    ({"data": {"zzz": 1}}, "The fields here are validationDataset, truncation, packing, shuffle.")])
def test_an_unknown_field_is_met_with_what_was_meant(config, hint):
    (problem,) = problems_of(document(config)).values()
    assert problem.code == "unknown_field"
    assert problem.hint.startswith(hint)


@pytest.mark.requirement("R052", "R068", "R072", "R129", "R141", "R144", "R147")
@pytest.mark.parametrize(("path", "config"), [
    ("config.method", {"method": "sftt"}),
    ("optimizer.kind", {"hyperparams": {"optimizer": {"kind": "sgd"}}}),
    ("scheduler.kind", {"hyperparams": {"scheduler": {"kind": "cosin"}}}),
    ("config.model.precision", {"model": {"precision": "FP8"}}),
    ("config.model.attentionImplementation", {"model": {"attentionImplementation": "flash"}}),
    ("config.data.truncation", {"data": {"truncation": "left"}}),
    ("config.loss.assistantTurns", {"loss": {"assistantTurns": "first"}}),
    ("config.engineSettings.engine", {"engineSettings": {"engine": "trl", "settings": {"a": 1}}})])
def test_a_value_outside_the_choices_is_refused_with_the_choices(path, config):
    (problem,) = problems_of(document(config)).values()
    assert (problem.path, problem.code) == (path, "unknown_value")


@pytest.mark.requirement("R052", "R053", "R077", "R164")
@pytest.mark.parametrize("config", [
    {"method": "dpo", "preference": {"beta": 0.2, "lossType": "ipo", "fusedLoss": False}},
    {"method": "gspo", "rlHyperparams": {"promptsPerStep": 4, "stalenessThreshold": 0}},
    {"loss": {"explicitLossMaskColumn": "mask", "trainOnToolResults": True}},
    {"hyperparams": {"lora": {"adaptExperts": False, "targetModules": ".*q_proj"}}},
    {"model": {"weightPrecision": "bf16", "gradientCheckpointing": True, "attentionImplementation": "flex_attention"}},
    {"engineSettings": {"engine": "verl", "settings": {"engine.forward_prefetch": True}}}])
def test_every_documented_field_is_read(config):
    execution = {"resumableSaveEvery": 3, "resumableSaveMinutes": 2, "keepTrainingStates": 1, "hostMemoryGiB": 3.5,
                 "microBatchSequences": 2, "rollout": {"memoryShare": 0.5}, "memory": {"offload": {"weights": True}}}
    assert codes_of(config, execution=execution, graderInstructions="x", smoke={"sliceSize": 5, "threshold": 1},
                    warmStartModelId="m", grader="json-label-match") == {}


def test_five_mistakes_are_five_problems():
    found = codes_of({"method": "sftt", "fromat": 1, "maxSeqLength": -1,
                      "hyperparams": {"lora": {"dropout": 1.5}, "training": {"epochs": "two"}}})
    assert found == {"config.method": "unknown_value", "config.fromat": "unknown_field",
                     "config.maxSeqLength": "negative_number", "lora.dropout": "out_of_range",
                     "training.epochs": "wrong_kind"}


@pytest.mark.parametrize("body", [None, [], "run", 3])
def test_what_is_no_object_is_refused(body):
    assert [problem.code for problem in parse_descriptor(body).problems] == ["wrong_kind"]


def test_a_nul_in_a_text_is_refused():
    assert codes_of({}, description="a\0b") == {"description": "unusable_text"}


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_text_that_cannot_be_kept_is_one_problem_and_is_not_looked_up(text):
    parsed = parse_descriptor(document(workload=text))
    assert [(problem.path, problem.code) for problem in parsed.problems] == [("workload", "unusable_text")]
    assert parsed.descriptor.workload is None


def test_a_number_of_many_digits_is_shown_short():
    assert len(problems_of(document({"maxSeqLength": 10**400}))["config.maxSeqLength"].message) < 120


def test_the_paths_that_were_written_are_kept_and_a_null_counts_as_left_out():
    parsed = parse_descriptor(document({"hyperparams": {"training": {"epochs": 2, "maxSteps": None}}}))
    assert "config.hyperparams.training.epochs" in parsed.stated
    assert "config.hyperparams.training.maxSteps" not in parsed.stated


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                           lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                                                       max_size=3), max_leaves=8)


@given(json_values, st.sampled_from(["kind", "workload", "config", "execution", "smoke", "submissionId"]))
def test_no_value_anywhere_makes_reading_fail(value, place):
    parsed = parse_descriptor(document() | {place: value})
    assert all(problem.code and problem.message for problem in parsed.problems)


@given(json_values, st.sampled_from(["hyperparams", "rlHyperparams", "reward", "data", "loss", "engineSettings"]))
def test_no_value_in_the_configuration_makes_reading_fail(value, place):
    parse_descriptor(document({place: value}))


def test_the_reference_has_a_meaning_for_every_field():
    rows = reference_rows()
    assert len(rows) > 100
    assert all(row["meaning"] and row["default"] and row["kind"] for row in rows)
    assert {"config.hyperparams.lora.rank", "execution.hostMemoryGiB", "config.reward.terms[].weight"} <= {
        row["path"] for row in rows}
