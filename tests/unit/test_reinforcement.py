"""Reinforcement runs resolved: their defaults and zero rules, the reward's terms and names, what refuses them."""

import pytest

from optimize_site.kernel.judges import Appointment
from runs.facts import BundleFacts, DeviceFacts, WarmStartFacts, WorkloadFacts
from runs.plan import scorer_spec
from runs.reinforcement import arithmetic_words
from runs.reward import term_names
from runs.text import settings_rows
from tests.unit.resolving import TINY, make_dataset_facts, make_entry, make_facts, only_problem, problems, resolved

BUNDLE = BundleFacts("gsm8k-scoring", "gsm8k/scoring:v2", "b" * 64, "5" * 64)
JUDGE = Appointment("7" * 64, "judges/tone:v1", TINY, "Judge the tone.", "stated")
ADAPTER = WarmStartFacts("m", "triage/tiny:v3", "d" * 64, "c" * 64, TINY, "rev",
                         {"rank": 4, "alpha": 8, "targetModules": "default"})


def grpo(facts=None, *, terms=None, **rl):
    """A grpo configuration's resolution; `terms` are its reward's."""
    stated = {"method": "grpo", "rlHyperparams": rl} | ({"reward": {"terms": terms}} if terms is not None else {})
    return resolved(stated, facts=facts)


@pytest.mark.requirement("R216", "R218", "R219", "R220", "R222", "R223", "R224", "R225", "R227")
@pytest.mark.parametrize("stated", [{}, {"rlHyperparams": {}}, {"rlHyperparams": {"groupSize": 4}}])
def test_what_is_left_out_takes_the_defaults_of_the_loop(stated):
    config = resolved({"method": "gspo"} | stated).config
    numbers = {key: value for key, value in config["rlHyperparams"].items() if not isinstance(value, dict)}
    assert numbers == {"epochs": 1, "maxSteps": 0, "groupSize": 4, "promptsPerStep": 8, "klBeta": 0.04,
                       "temperature": 0.7, "maxCompletionLength": 256, "stalenessThreshold": 0}
    assert config["rlHyperparams"]["optimizer"] == {"kind": "adamw", "learningRate": 0.00001, "weightDecay": 0.01,
                                                    "maxGradNorm": 1}
    assert config["rlHyperparams"]["scheduler"]["kind"] == "constant"
    assert not {"hyperparams", "data", "loss", "preference", "warmStartConfigHash"} & set(config)


@pytest.mark.requirement("R226")
def test_zero_stays_zero_where_it_means_something_and_is_the_default_elsewhere():
    kept = {"klBeta": 0, "temperature": 0, "maxSteps": 0, "stalenessThreshold": 0}
    found = grpo(**kept, groupSize=0, promptsPerStep=0, maxCompletionLength=0, epochs=0).config["rlHyperparams"]
    assert {name: found[name] for name in kept} == kept
    assert [found[name] for name in ("groupSize", "promptsPerStep", "maxCompletionLength", "epochs")] == [4, 8, 256, 1]
    groups = {"lora": {"rank": 0, "alpha": 0, "dropout": 0},
              "optimizer": {"learningRate": 0, "weightDecay": 0, "maxGradNorm": 0},
              "scheduler": {"warmupRatio": 0, "minLearningRateRatio": 0}}
    assert grpo(**groups).config == grpo().config
    optimizer = grpo(**groups).config["rlHyperparams"]["optimizer"]
    assert (optimizer["learningRate"], optimizer["weightDecay"]) == (0.00001, 0.01)


@pytest.mark.requirement("R218", "R220")
@pytest.mark.parametrize(("rl", "steps"), [
    ({}, 13), ({"epochs": 2}, 26), ({"maxSteps": 5}, 5), ({"maxSteps": 500}, 500), ({"promptsPerStep": 10}, 10)])
def test_a_step_is_one_update_and_max_steps_overrides_the_epochs(rl, steps):
    assert grpo(**rl).total_steps == steps


def test_the_arithmetic_of_groups_and_steps_is_said():
    found = grpo(groupSize=6)
    assert arithmetic_words(found.config, 100) == (
        "8 prompts × 6 completions = 48 completions a step, which is one update; 100 prompts are 13 steps an epoch")


@pytest.mark.requirement("R139")
def test_a_loss_or_data_group_of_nothing_but_defaults_asks_for_nothing():
    assert problems({"method": "grpo", "data": {"truncation": "error", "shuffle": True},
                     "loss": {"assistantTurns": "last"}}) == {}
    stated = problems({"method": "grpo", "data": {"truncation": "drop"}, "loss": {"assistantTurns": "all"}})
    assert stated == {"config.data": "does_not_apply", "config.loss": "does_not_apply"}


@pytest.mark.requirement("R217", "R225")
@pytest.mark.parametrize(("rl", "found"), [
    ({"lora": {"dropout": 0.1}}, {"lora.dropout": "dropout_not_supported"}),
    ({"scheduler": {"kind": "linear"}}, {"scheduler.kind": "schedule_not_supported"}),
    ({"stalenessThreshold": 1}, {"config.rlHyperparams.stalenessThreshold": "staleness_not_supported"}),
    ({"groupSize": 1}, {"config.rlHyperparams.groupSize": "group_too_small"}),
    ({"maxCompletionLength": 2048}, {"config.rlHyperparams.maxCompletionLength": "no_room_for_prompts"})])
def test_what_reinforcement_cannot_do_is_refused_by_its_field(rl, found):
    assert problems({"method": "grpo", "rlHyperparams": rl}) == found


@pytest.mark.parametrize("group", [3, 8])
@pytest.mark.parametrize("prompts", range(1, 10))
def test_f38_any_prompts_and_groups_are_a_step_on_one_device_and_even_ones_on_two(group, prompts):
    step = {"groupSize": group, "promptsPerStep": prompts}
    assert problems({"method": "grpo", "rlHyperparams": step}) == {}
    two = make_facts(devices=(DeviceFacts("h200", "cuda", 2, 100.0),))
    found = problems({"method": "grpo", "rlHyperparams": step}, facts=two, execution={"gpus": 2})
    field = "config.rlHyperparams.promptsPerStep"
    assert found.get(field) == ("uneven_prompts" if prompts % 2 else None)


@pytest.mark.parametrize(("prompts", "hint"), [(1, "State 2."), (5, "State 4 or 6.")])
def test_f38_prompts_that_devices_cannot_share_are_told_the_nearest_numbers_that_they_can(prompts, hint):
    two = make_facts(devices=(DeviceFacts("h200", "cuda", 2, 100.0),))
    found = resolved({"method": "grpo", "rlHyperparams": {"promptsPerStep": prompts}}, facts=two, execution={"gpus": 2})
    assert [problem.hint for problem in found.problems if problem.code == "uneven_prompts"] == [hint]


@pytest.mark.requirement("R163")
def test_devices_set_aside_for_rollouts_are_refused_saying_what_to_set():
    problem = only_problem({"method": "grpo"}, execution={"rolloutGpus": 1})
    assert problem.path == "execution.rolloutGpus"
    assert "execution.gpus" in problem.hint


@pytest.mark.requirement("R234", "R240")
@pytest.mark.parametrize("modality", ["text", "image-text"])
@pytest.mark.parametrize(("rows", "code"), [
    ({"num_images": 3}, "images_not_read"), ({"num_call_answers": 2}, "answer_calls_tools")])
def test_rows_that_a_reward_cannot_compare_are_refused_by_their_count(rows, code, modality):
    facts = make_facts(dataset=make_dataset_facts(**rows), entry=make_entry(modality=modality))
    problem = only_problem({"method": "gspo"}, facts=facts)
    assert (problem.path, problem.code) == ("config.dataset", code)
    assert str(next(iter(rows.values()))) in problem.message


def test_a_smoke_check_is_not_for_reinforcement():
    assert problems({"method": "grpo"}, smoke={}) == {"smoke": "smoke_not_for_method"}


def test_greedy_groups_are_warned_of():
    assert [warning["code"] for warning in grpo(temperature=0).warnings if warning["code"] == "greedy_groups"]


# The reward ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R054")
@pytest.mark.parametrize(("stated", "workload", "expected"), [
    ({}, "", "json-label-match"), ({}, "exact", "exact"), ({"grader": "numeric"}, "exact", "numeric")])
def test_without_terms_the_run_s_grader_is_the_reward(stated, workload, expected):
    facts = make_facts(workload=WorkloadFacts("w" * 64, "triage", "triage", workload))
    found = resolved({"method": "grpo"}, facts=facts, **stated)
    assert found.config["reward"] == {"terms": [{"kind": "grader", "weight": 1, "grader": expected}],
                                      "onFailure": "zero"}


def test_a_term_of_the_kind_grader_is_the_run_s_or_one_of_its_own():
    terms = [{"kind": "grader"}, {"kind": "grader", "weight": 0.25, "grader": "contains"}]
    facts = make_facts(graders={"contains": "contains:{}"})
    found = resolved({"method": "grpo", "reward": {"terms": terms}}, facts=facts, grader="exact").config["reward"]
    assert [(term["grader"], term["weight"]) for term in found["terms"]] == [("exact", 1), ("contains:{}", 0.25)]


@pytest.mark.requirement("R029", "R235")
def test_a_bundle_is_hashed_by_its_content_and_named_beside_it():
    term = {"kind": "rule", "weight": 1.0, "bundle": "gsm8k-scoring", "module": "reward"}
    found = grpo(make_facts(bundles={"gsm8k-scoring": BUNDLE}), terms=[term])
    assert found.problems == ()
    assert found.config["reward"]["terms"] == [
        {"kind": "rule", "weight": 1, "bundle": "5" * 64, "module": "reward", "function": "compute_score"}]
    assert found.references["reward"] == [{"name": "reward", "bundle": {
        "stated": "gsm8k-scoring", "reference": "gsm8k/scoring:v2", "versionId": "b" * 64, "contentHash": "5" * 64}}]


@pytest.mark.requirement("R029")
def test_a_judge_is_hashed_by_its_model_and_what_it_is_told():
    facts = make_facts(judges={("tone", "", ""): JUDGE})
    found = grpo(facts, terms=[{"kind": "model", "model": "tone"}])
    assert found.config["reward"]["terms"][0] | {"weight": 1} == {
        "kind": "model", "weight": 1, "model": "7" * 64, "instructions": "Judge the tone."}
    assert found.references["reward"] == [{"name": "judge", "judge": JUDGE.document}]
    other = make_facts(judges={("tone", "", ""): Appointment("7" * 64, JUDGE.reference, TINY, "Be kind.", "built-in")})
    assert grpo(other, terms=[{"kind": "model", "model": "tone"}]).config_hash != found.config_hash


def test_a_grader_that_names_a_bundle_or_a_judge_stands_for_it():
    facts = make_facts(graders={"bundle:b#m": "bundle:x/b:v1#m:f", "model:t": "model:judges/tone:v1"},
                       bundles={"x/b:v1": BUNDLE}, judges={("judges/tone:v1", "", ""): JUDGE})
    found = grpo(facts, terms=[{"kind": "grader", "grader": "bundle:b#m"}, {"kind": "grader", "grader": "model:t"}])
    assert [term["grader"] for term in found.config["reward"]["terms"]] == [f"bundle:{'5' * 64}#m:f",
                                                                           f"model:{'7' * 64}"]
    assert [sorted(named) for named in found.references["reward"]] == [["bundle", "name"], ["judge", "name"]]
    again = grpo(make_facts(), terms=found.config["reward"]["terms"])
    assert "config.reward.terms" not in str([problem.path for problem in again.problems]), "a branch writes it again"


@pytest.mark.parametrize(("terms", "names"), [
    (["exact", "regex:{}", "exact"], ["exact", "regex", "exact-2"]),
    (["http:https://a/b", "model:x", "weighted:{}"], ["http", "judge", "weighted"]),
    ([("m", "f"), ("m", "g"), ("n", "f")], ["ns/b#m:f", "ns/b#m:g", "n"]),
    ([("m", "f"), ("m", "f")], ["ns/b#m:f", "ns/b#m:f-2"]),
    ([("a b/ü", "f")], ["a_b/_"]), ([("m" * 200, "f")], ["m" * 80])])
def test_terms_have_names_of_their_own(terms, names):
    written = [{"kind": "rule", "module": term[0], "function": term[1]} if isinstance(term, tuple)
               else {"kind": "grader", "grader": term} for term in terms]
    assert term_names(written, ["ns/b:v1"] * len(written)) == names


@pytest.mark.parametrize(("term", "path", "code"), [
    ({}, "kind", "required"), ({"kind": "rule", "module": "m"}, "bundle", "required"),
    ({"kind": "rule", "bundle": "b"}, "module", "required"), ({"kind": "model"}, "model", "required"),
    ({"kind": "grader", "bundle": "b"}, "bundle", "does_not_apply"),
    ({"kind": "rule", "bundle": "b", "module": "m", "grader": "exact"}, "grader", "does_not_apply"),
    ({"kind": "grader", "grader": "exact", "instructions": "x"}, "instructions", "does_not_apply")])
def test_a_term_says_what_scores_and_nothing_else(term, path, code):
    assert problems({"method": "grpo", "reward": {"terms": [term]}})[f"config.reward.terms[0].{path}"] == code


def test_a_reward_that_rewards_nothing_is_refused():
    found = problems({"method": "grpo", "reward": {"terms": [{"kind": "grader", "weight": 0}]}})
    assert found == {"config.reward.terms": "nothing_rewarded"}


@pytest.mark.requirement("R231")
def test_a_format_term_or_a_warm_start_is_offered_where_the_reward_is_strict():
    strict = next(warning for warning in grpo().warnings if warning["code"] == "strict_reward")
    assert "warmStartModelId" in strict["message"]
    assert "json-schema" in strict["message"]
    lined = grpo(make_facts(dataset=make_dataset_facts(has_answer_lines=True)))
    assert "grader: 'answer-line'" in str(lined.warnings)
    formed = [{"kind": "grader"}, {"kind": "grader", "weight": 0.2, "grader": 'regex:{"pattern":"^ok"}'}]
    for found in (grpo(terms=formed), grpo(make_facts(warm_start=ADAPTER))):
        assert "strict_reward" not in {warning["code"] for warning in found.warnings}


def test_the_scorer_is_told_each_term_by_its_name():
    found = grpo(make_facts(bundles={"b": BUNDLE}), terms=[{"kind": "grader", "weight": 2},
                                                           {"kind": "rule", "bundle": "b", "module": "m"}])
    archive = {"archive": "/a.zip", "sha256": "5" * 64, "module": "m", "function": "compute_score"}
    names = [named["name"] for named in found.references["reward"]]
    spec = scorer_spec(found.config["reward"], [{"name": names[0]}, {"name": names[1], "bundle": archive}],
                       on_failure="zero", limits={"seconds": 1}, scratch="/s")
    assert spec["terms"] == [{"name": "json-label-match", "weight": 2, "kind": "grader", "grader": "json-label-match"},
                             {"name": "m", "weight": 1, "kind": "rule", "bundle": archive}]


# A warm start --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R030", "R043", "R055")
def test_a_warm_start_is_hashed_and_keeps_the_adapter_s_shape():
    found = resolved({"method": "grpo"}, facts=make_facts(warm_start=ADAPTER), warmStartModelId="m")
    assert found.problems == ()
    assert found.config["warmStartConfigHash"] == "c" * 64
    assert found.references["warmStart"]["reference"] == "triage/tiny:v3"
    assert found.config["rlHyperparams"]["lora"] == {"rank": 4, "alpha": 8, "dropout": 0, "targetModules": "default",
                                                     "adaptExperts": False}
    assert found.config_hash != resolved({"method": "grpo"}).config_hash


@pytest.mark.requirement("R055")
def test_the_hash_of_a_warm_start_is_not_the_person_s_to_state():
    assert problems({"method": "grpo", "warmStartConfigHash": "c" * 64}) == {
        "config.warmStartConfigHash": "set_by_the_box"}


@pytest.mark.requirement("R043")
def test_a_warm_start_of_another_shape_base_or_method_is_refused():
    facts = make_facts(warm_start=ADAPTER)
    shape = resolved({"method": "grpo", "rlHyperparams": {"lora": {"rank": 8}}}, facts=facts).problems
    assert [(problem.path, problem.code) for problem in shape] == [("lora.rank", "adapter_keeps_its_shape")]
    other = WarmStartFacts("m", "x/y:v1", "d" * 64, "c" * 64, "acme/other", "", {})
    assert problems({"method": "grpo"}, facts=make_facts(warm_start=other)) == {"warmStartModelId": "other_base_model"}
    older = WarmStartFacts("m", "x/y:v1", "d" * 64, "c" * 64, TINY, "old", {})
    assert problems({"method": "grpo"}, facts=make_facts(warm_start=older)) == {
        "warmStartModelId": "other_base_revision"}
    assert problems(warmStartModelId="m") == {"warmStartModelId": "does_not_apply"}


def test_a_penalty_toward_an_inherited_adapter_is_for_one_device():
    facts = make_facts(warm_start=ADAPTER, devices=(DeviceFacts("h200", "cuda", 4, 100.0),))
    found = resolved({"method": "grpo"}, facts=facts, execution={"gpus": 2}).problems
    refusal = next(problem for problem in found if problem.code == "kl_over_several_devices")
    assert refusal.hint == "Set klBeta to 0, or train without inheriting a policy"


def test_every_setting_of_a_reward_is_written_out():
    found = grpo(terms=[{"kind": "grader", "grader": "exact"}])
    stated = ["config.reward.terms"]
    rows = dict(settings_rows({"config": found.config, "execution": found.execution, "stated": stated}))
    assert (rows["reward.terms[0].kind"], rows["reward.terms[0].grader"]) == ("grader (stated)", "exact (stated)")
    assert rows["reward.onFailure"] == "zero"
