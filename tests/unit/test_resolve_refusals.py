"""Resolving: what is refused and why, and what is only warned of."""

import pytest
from msgspec.structs import replace

from optimize_site.kernel.catalog import Defaults, MemorySettings, load_catalog
from runs.facts import BaseModelFacts, DeviceFacts, WorkloadFacts
from tests.unit.resolving import (
    HELD_OUT,
    document,
    make_catalog,
    make_dataset_facts,
    make_entry,
    make_facts,
    measured,
    only_problem,
    problems,
    resolved,
)


@pytest.mark.requirement("R037", "R038", "R051")
def test_what_a_run_needs_is_asked_for_all_at_once():
    body = {"config": {}}
    assert _problems_of(body) == {"kind": "required", "workload": "required", "config.dataset": "required"}
    assert _problems_of({}) == {"kind": "required", "workload": "required", "config": "required",
                                "config.dataset": "required"}


def _problems_of(body):
    from runs.descriptor import parse_descriptor
    from runs.resolve import resolve

    return {problem.path: problem.code for problem in resolve(parse_descriptor(body), make_facts()).problems}


def test_reading_mistakes_and_resolving_mistakes_come_together():
    found = problems({"fromat": 1, "hyperparams": {"lora": {"rank": -1}, "optimizer": {"kind": "sgd"},
                                                   "scheduler": {"minLearningRateRatio": 0.1}},
                      "data": {"truncation": "right"}})
    assert found == {"config.fromat": "unknown_field", "lora.rank": "negative_number",
                     "optimizer.kind": "unknown_value", "scheduler.minLearningRateRatio": "floor_without_cosine",
                     "config.data.truncation": "cuts_the_answer"}


def test_a_field_is_blamed_once():
    assert problems({"hyperparams": {"lora": {"targetModules": 3, "dropout": 2}}}) == {
        "lora.targetModules": "wrong_kind", "lora.dropout": "out_of_range"}


@pytest.mark.requirement("R074")
def test_only_cosine_has_a_floor():
    floor = {"minLearningRateRatio": 0.1}
    assert problems({"hyperparams": {"scheduler": floor | {"kind": "cosine"}}}) == {}
    problem = only_problem({"hyperparams": {"scheduler": floor | {"kind": "constant"}}})
    assert "0.1" in problem.message
    assert "constant" in problem.message


@pytest.mark.requirement("R063", "R200")
def test_rank_and_length_are_held_against_what_the_box_supports():
    entry = make_entry(max_rank=16, context_length=1024)
    found = problems({"hyperparams": {"lora": {"rank": 17}}}, facts=make_facts(entry=entry))
    assert found == {"lora.rank": "rank_too_high", "config.maxSeqLength": "sequence_too_long"}
    assert problems({"hyperparams": {"lora": {"rank": 16}}, "maxSeqLength": 1024}, facts=make_facts(entry=entry)) == {}


def test_the_context_that_preparing_found_is_the_limit():
    base = BaseModelFacts(make_entry(context_length=None), "READY", "e" * 64, "rev", 512, is_selected=True)
    assert problems(facts=make_facts(base_model=base)) == {"config.maxSeqLength": "sequence_too_long"}


@pytest.mark.requirement("R066")
def test_a_pattern_must_be_a_regular_expression():
    assert problems({"hyperparams": {"lora": {"targetModules": "(["}}}) == {"lora.targetModules": "bad_pattern"}
    assert problems({"hyperparams": {"lora": {"targetModules": r".*\.(q|v)_proj"}}}) == {}


@pytest.mark.requirement("R215")
def test_adapting_experts_is_refused():
    assert problems({"hyperparams": {"lora": {"adaptExperts": True}}}) == {"lora.adaptExperts": "experts_refused"}
    assert problems({"hyperparams": {"lora": {"adaptExperts": False}}}) == {}


@pytest.mark.requirement("R085")
def test_the_validation_dataset_is_not_the_training_dataset():
    same = make_facts(validation=make_dataset_facts(reference="triage/copy:v1"))
    assert problems({"data": {"validationDataset": "copy"}}, facts=same) == {
        "config.data.validationDataset": "validation_is_training"}
    other = make_facts(validation=make_dataset_facts(HELD_OUT))
    assert problems({"data": {"validationDataset": "held"}}, facts=other) == {}
    assert resolved(facts=other).config["data"]["validationDataset"] == HELD_OUT


@pytest.mark.requirement("R052")
def test_a_method_that_no_engine_runs_is_checked_and_refused_by_name():
    engines = {name: replace(engine, methods=["sft"]) for name, engine in load_catalog().engines.items()}
    facts = make_facts(catalog=make_catalog(engines=engines))
    found = problems({"method": "grpo", "rlHyperparams": {"optimizer": {"weightDecay": -1}}}, facts=facts)
    assert found == {"optimizer.weightDecay": "negative_number", "config.method": "method_not_available"}


PAIRS = {"format": "preference-jsonl-v1"}


@pytest.mark.requirement("R263")
@pytest.mark.parametrize(("config", "path"), [
    ({"preference": {"beta": -0.1}}, "config.preference.beta"), ({"data": {"packing": True}}, "config.data.packing"),
    ({"data": {"truncation": "right"}}, "config.data.truncation"),
    ({"loss": {"assistantTurns": "all"}}, "config.loss")])
def test_what_a_preference_run_cannot_do_is_refused(config, path):
    assert path in problems({"method": "dpo"} | config, facts=make_facts(dataset=make_dataset_facts(**PAIRS)))


@pytest.mark.requirement("R053")
@pytest.mark.parametrize(("config", "path"), [
    ({"rlHyperparams": {}}, "config.rlHyperparams"), ({"reward": {}}, "config.reward"),
    ({"preference": {"beta": 0.1}}, "config.preference"),
    ({"method": "grpo", "hyperparams": {}}, "config.hyperparams"),
    ({"method": "grpo", "data": {"packing": True}}, "config.data"),
    ({"method": "grpo", "loss": {"assistantTurns": "all"}}, "config.loss")])
def test_a_group_of_another_method_is_refused(config, path):
    assert problems(config)[path] == "does_not_apply"


@pytest.mark.requirement("R169")
def test_more_devices_than_there_are_or_than_the_engine_uses_are_refused():
    assert problems(execution={"gpus": 2}) == {"execution.gpus": "too_many_devices"}
    several = make_facts(devices=(DeviceFacts("h200", "cuda", 4, 100.0),))
    training = {"hyperparams": {"training": {"microBatchPerGpu": 1, "gradientAccumulation": 4}}}
    assert problems(training, execution={"gpus": 2}, facts=several) == {"execution.gpus": "too_many_devices_for_engine"}


@pytest.mark.requirement("R263")
def test_a_preference_run_takes_one_device():
    several = make_facts(dataset=make_dataset_facts(**PAIRS), devices=(DeviceFacts("h200", "cuda", 4, 100.0),))
    training = {"microBatchPerGpu": 1, "gradientAccumulation": 4}
    found = {gpus: problems({"method": "dpo", "hyperparams": {"training": training}}, execution={"gpus": gpus},
                            facts=several) for gpus in (1, 2, 4)}
    refused = {"execution.gpus": "too_many_devices_for_engine"}
    assert found == {1: {}, 2: refused, 4: refused}


def test_a_profile_the_box_does_not_have_is_refused_naming_those_it_has():
    problem = only_problem(execution={"deviceProfile": "h200"})
    assert (problem.path, problem.code) == ("execution.deviceProfile", "no_such_device")
    assert "cpu" in problem.message


def test_host_memory_is_held_against_the_node_s_own():
    assert problems(execution={"hostMemoryGiB": 25}) == {"execution.hostMemoryGiB": "host_memory_too_small"}
    assert problems(execution={"hostMemoryGiB": 24}) == {}
    unstated = make_facts(devices=(DeviceFacts("cpu", "cpu", 1, None),))
    assert problems(execution={"hostMemoryGiB": 9999}, facts=unstated) == {}


@pytest.mark.requirement("R147", "R169")
def test_an_engine_that_is_not_allowed_or_not_known_is_refused():
    entry = make_entry(engines={"trl": ["sft"], "verl": ["sft"]})
    assert problems(execution={"engine": "verl"}, facts=make_facts(entry=entry)) == {
        "execution.engine": "engine_not_allowed"}
    assert problems(execution={"engine": "verl"}) == {"execution.engine": "engine_not_listed"}
    assert problems(execution={"engine": "deepspeed"})["execution.engine"] == "unknown_engine"
    allowed = make_facts(entry=entry, allowed_engines=("trl", "verl"))
    assert problems(execution={"engine": "verl"}, facts=allowed) == {"execution.engine": "engine_not_available"}


@pytest.mark.requirement("R147")
def test_engine_settings_need_verl():
    settings = {"engineSettings": {"engine": "verl", "settings": {"engine.forward_prefetch": True}}}
    assert problems(settings) == {"config.engineSettings": "engine_not_listed"}
    assert problems(settings, execution={"engine": "trl"}) == {"config.engineSettings": "engine_does_not_honour"}


def test_engine_settings_are_checked_by_name():
    entry = make_entry(engines={"trl": ["sft"], "verl": ["sft"]})
    stated = {"engine.forward_prefetch": 1, "rollout.enforce_eager": True, "data.path": "/x",
              "engine.pad_to_length_bucket": True}
    found = problems({"engineSettings": {"engine": "verl", "settings": stated}},
                     facts=make_facts(entry=entry, allowed_engines=("trl", "verl")))
    prefix = "config.engineSettings.settings."
    assert {path.removeprefix(prefix): code for path, code in found.items() if path.startswith(prefix)} == {
        "engine.forward_prefetch": "wrong_kind", "rollout.enforce_eager": "setting_does_not_apply",
        "data.path": "setting_not_allowed", "engine.pad_to_length_bucket": "wrong_kind"}


def test_memory_settings_need_verl_and_the_box_s_leave():
    found = problems({"model": {"weightPrecision": "bf16"}}, execution={"memory": {"offload": {"weights": True}}})
    assert found == {"config.model.weightPrecision": "engine_not_listed",
                     "execution.memory.offload.weights": "engine_not_listed"}
    share = problems(execution={"rollout": {"memoryShare": 0.5}})
    assert share == {"execution.rollout.memoryShare": "does_not_apply"}
    catalog = make_catalog(defaults=Defaults(memory=MemorySettings(stateable=[])))
    entry = make_entry(engines={"verl": ["sft"]})
    facts = make_facts(entry=entry, catalog=catalog, allowed_engines=("verl",))
    codes = [problem.code for problem in resolved({"model": {"weightPrecision": "bf16"}}, facts=facts).problems]
    assert "setting_not_allowed" in codes


@pytest.mark.requirement("R199")
def test_an_allowed_model_must_be_selected_first():
    base = BaseModelFacts(make_entry(), "", "e" * 64)
    problem = only_problem(facts=make_facts(base_model=base))
    assert problem.code == "base_model_not_selected"
    assert "base-models select acme/tiny" in problem.hint


@pytest.mark.requirement("R210")
def test_a_serving_only_model_is_refused_with_the_reason_under_advisory_too():
    entry = make_entry(serving_only=True, serving_only_reason="its experts cannot be served", engines={})
    for strict in (False, True):
        problem = only_problem(facts=make_facts(entry=entry, strict_envelopes=strict))
        assert problem.code == "serving_only"
        assert "its experts cannot be served" in problem.message


@pytest.mark.requirement("R127")
def test_a_run_outside_the_measurements_is_admitted_with_a_warning():
    (warning,) = resolved().warnings
    assert warning["code"] == "unmeasured_envelope"
    assert "may run out of device memory" in warning["message"]
    assert resolved(facts=make_facts(entry=make_entry(envelopes=[measured()]))).warnings == ()


@pytest.mark.parametrize("change", [{"max_seq_length": 1024}, {"max_pass_tokens": 2048}, {"gpus": 2},
                                    {"device_profile": "h200"}, {"methods": ["dpo"]}, {"precisions": ["INT4"]},
                                    {"engines": ["verl"]}])
def test_a_measurement_covers_what_it_measured_and_no_more(change):
    facts = make_facts(entry=make_entry(envelopes=[measured(**change)]))
    assert [warning["code"] for warning in resolved(facts=facts).warnings] == ["unmeasured_envelope"]


def test_what_was_measured_is_told_with_its_method():
    facts = make_facts(entry=make_entry(envelopes=[measured(methods=["dpo"], precisions=["INT4"])]))
    (warning,) = resolved(facts=facts).warnings
    assert "Measured: dpo on 1 × cpu at INT4 up to 2048 tokens." in warning["message"]


def test_a_box_with_less_memory_than_the_measurement_took_is_warned():
    facts = make_facts(entry=make_entry(envelopes=[measured(host_memory_gib=24.5)]))
    assert [warning["code"] for warning in resolved(facts=facts).warnings] == ["memory_below_measurement"]
    enough = make_facts(entry=make_entry(envelopes=[measured(host_memory_gib=24.0)]))
    assert resolved(facts=enough).warnings == ()


def test_a_strict_box_refuses_what_was_not_measured():
    facts = make_facts(entry=make_entry(envelopes=[measured(max_seq_length=1024)]), strict_envelopes=True)
    problem = only_problem(facts=facts)
    assert problem.code == "unmeasured_envelope"
    assert "1024" in problem.hint
    assert problems({"maxSeqLength": 1024}, facts=facts) == {}


def test_archived_things_take_no_new_work():
    facts = make_facts(workload=WorkloadFacts("w", "triage", "triage", "", True, True))
    assert [problem.code for problem in resolved(facts=facts).problems] == ["workload_archived", "namespace_archived"]


@pytest.mark.requirement("R042")
def test_a_run_may_state_the_grader_of_its_evaluations():
    assert problems(grader="json-label-match") == {}
    assert problems(grader="jsonlabel") == {"grader": "malformed_grader"}
    assert problems(grader="http:https://x") == {"grader": "grader_host_not_allowed"}


def test_workload_and_project_are_one_thing():
    body = document() | {"project": "triage"}
    assert _problems_of(body) == {}
    assert _problems_of(body | {"project": "other"}) == {"project": "contradiction"}
    del body["workload"]
    assert _problems_of(body) == {}


def test_an_adapter_to_start_from_is_for_reinforcement():
    assert list(problems(warmStartModelId="m")) == ["warmStartModelId"]


@pytest.mark.requirement("R046")
@pytest.mark.parametrize("dataset", [{"format": "prepared-tokens-v1"}, {"num_images": 3}])
def test_a_smoke_check_needs_rows_whose_answers_can_be_asked_for(dataset):
    facts = make_facts(dataset=make_dataset_facts(**dataset))
    assert problems(facts=facts, smoke={})["smoke"] == "smoke_needs_text"
    assert "smoke" not in problems(facts=facts)


def test_the_warm_start_s_hash_is_not_the_person_s_to_state():
    assert problems({"warmStartConfigHash": "x"}) == {"config.warmStartConfigHash": "set_by_the_box"}


def test_int4_on_processors_is_admitted_and_said_to_be_slow():
    found = resolved({"model": {"precision": "INT4"}})
    assert found.problems == ()
    assert "int4_on_processors" in [warning["code"] for warning in found.warnings]


@pytest.mark.parametrize(("config", "path", "code"), [
    ({"method": "grpo"}, "config.method", "method_not_listed"),
    ({"model": {"attentionImplementation": "flex_attention"}}, "config.model.attentionImplementation",
     "attention_not_supported")])
def test_what_the_base_model_or_the_processors_do_not_do_is_refused_saying_what_to_change(config, path, code):
    found = resolved(config, facts=make_facts(entry=make_entry(engines={"trl": ["sft"]}))).problems
    assert [bool(problem.hint) for problem in found if (problem.path, problem.code) == (path, code)] == [True]


def test_int4_is_refused_for_a_reinforcement_run_under_verl():
    found = resolved({"method": "grpo", "model": {"precision": "INT4"}}, execution={"engine": "verl"})
    assert ("config.model.precision", "Leave it out.") in [(problem.path, problem.hint) for problem in found.problems]


def test_every_refusal_has_a_code_and_a_sentence():
    found = resolved({"method": "grpo", "data": {"truncation": "right"}, "rlHyperparams": {"stalenessThreshold": 2}},
                     execution={"gpus": 9, "rolloutGpus": 1, "hostMemoryGiB": 99, "engine": "verl"}, smoke={})
    assert len(found.problems) >= 7
    assert all(problem.code and problem.message.endswith(".") for problem in found.problems)
