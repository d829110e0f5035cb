"""Reinforcement runs through the whole entry: they learn, tell what they did, and go on to the same bytes."""

import json
import math
from hashlib import file_digest
from pathlib import Path

import jobs
import pytest
import tiny
import torch
from optimize_child import line_process
from optimize_child.failures import JobFailure
from optimize_child.reinforcement.reward_failures import RewardFailures
from optimize_child.reinforcement.rewards import Reward, RewardRule, TermScore
from optimize_child.reinforcement.trainer import PolicyTrainer
from safetensors.torch import load_file

pytestmark = pytest.mark.filterwarnings("ignore")

RL = "config.rlHyperparams"
SPEC = "scorer.spec"


@pytest.fixture
def train(tmp_path, base_model, write_rows):
    """Runs one plan over some prompts, each call in an attempt of its own."""
    made = iter(range(99))

    def train(rows=None, **changes):
        number = next(made)
        path = write_rows(tiny.ticket_rows(5) if rows is None else rows, f"prompts-{number}.jsonl")
        return jobs.run(tmp_path / f"attempt-{number}", tiny.rl_plan(base_model, [path], **changes))

    return train


def weights(attempt: Path) -> dict[str, torch.Tensor]:
    return load_file(attempt / tiny.events_of(attempt, "finished")[0]["adapter"] / "adapter_model.safetensors")


def rollouts(attempt: Path, step: int) -> list[dict]:
    (event,) = (event for event in tiny.events_of(attempt, "rollouts") if event["step"] == step)
    found = [json.loads(line) for line in (attempt / event["file"]).read_text().splitlines()]
    assert len(found) == event["count"]
    return found


def start_from(attempt: Path, mode: str, at: int = -1) -> dict:
    """The `start` of a branch from one of an attempt's snapshots."""
    saved = tiny.events_of(attempt, "snapshot")[at]
    return {"folder": str(attempt / saved["folder"]), "mode": mode, "manifest_sha256": saved["manifestSha256"],
            "state_manifest_sha256": saved["stateManifestSha256"]}  # fmt: skip


def warm_start_from(attempt: Path) -> dict:
    """The adapter an attempt ended with, as a registered one."""
    folder = attempt / tiny.events_of(attempt, "finished")[0]["adapter"]
    names = ("adapter_config.json", "adapter_model.safetensors")
    return {"folder": str(folder), "sha256": {n: file_digest((folder / n).open("rb"), "sha256").hexdigest()
                                              for n in names}}  # fmt: skip


@pytest.mark.requirement("R028", "R220")
def test_a_run_learns_what_is_rewarded(train):
    attempt = train(**{f"{RL}.maxSteps": 14, f"{RL}.klBeta": 0.0, f"{RL}.groupSize": 8, f"{RL}.temperature": 1.0,
                       f"{RL}.optimizer.learningRate": 0.05, f"{SPEC}.terms": [tiny.term("length")]})  # fmt: skip
    rewards = jobs.metrics(attempt, "reward")
    assert sum(rewards[-4:]) > sum(rewards[:4]) + 0.1
    assert [event["count"] for event in tiny.events_of(attempt, "rollouts")] == [16, 16, 8] * 4 + [16, 16]


@pytest.mark.requirement("R222")
def test_the_first_update_is_no_step_away_from_the_reference(train):
    attempt = train(**{f"{RL}.maxSteps": 2})
    kl = jobs.metrics(attempt, "kl")
    assert kl[0] == 0
    assert kl[1] > 0
    assert "kl" not in tiny.events_of(train(**{f"{RL}.maxSteps": 1, f"{RL}.klBeta": 0.0}), "metrics")[0]["values"]


@pytest.mark.requirement("R274", "R276")
def test_every_scored_completion_is_written_before_it_is_told_of(train):
    terms = [tiny.term("vowels", 2.0), tiny.term("even", 0.5)]
    attempt = train(**{f"{RL}.maxSteps": 2, f"{SPEC}.terms": terms})
    found = rollouts(attempt, 2)
    assert [(one["group"], one["index"]) for one in found] == [(g, i) for g in range(2) for i in range(4)]
    for one in found:
        assert one["score"] == pytest.approx(sum(term["share"] for term in one["terms"]))
        assert [term["name"] for term in one["terms"]] == ["vowels", "even"]
        assert one["terms"][1]["share"] == 0.5 * one["terms"][1]["score"]
        assert one["prompt"][-1]["role"] == "user"
        assert (one["finish"], one["tokens"]) == ("length", 12) or one["finish"] == "stop"
    values = tiny.events_of(attempt, "metrics")[1]["values"]
    scores = [one["score"] for one in found]
    assert values["reward"] == pytest.approx(sum(scores) / 8)
    assert values["term.vowels.mean"] == pytest.approx(sum(one["terms"][0]["share"] for one in found) / 8)
    assert values["term.even.seconds"] == pytest.approx(0.25 / 8)
    assert values["completion_max"] == max(one["tokens"] for one in found)


def test_an_update_reads_each_prompt_once_and_its_completions(train):
    attempt = train(**{f"{RL}.maxSteps": 1, f"{RL}.promptsPerStep": 5})
    prompts = tiny.events_of(attempt, "data_fit")[0]["totalTokens"]
    completions = sum(one["tokens"] for one in rollouts(attempt, 1))
    assert jobs.metrics(attempt, "tokens") == [prompts + completions]


@pytest.mark.parametrize(("method", "term", "flat"), [("grpo", "even", {0, 0.5}), ("gspo", "always:0.3", {1})])
def test_a_group_whose_scores_are_alike_only_goes_forward_and_changes_no_bit(train, monkeypatch, method, term, flat):
    went_back, own = [], PolicyTrainer._teaches
    monkeypatch.setattr(PolicyTrainer, "_teaches", lambda *given: went_back.append(own(*given)) or went_back[-1])
    changes = {"config.method": method, f"{RL}.maxSteps": 2, f"{RL}.klBeta": 0.0, f"{RL}.optimizer.weightDecay": 0.1,
               f"{SPEC}.terms": [tiny.term(term)], f"{RL}.groupSize": 2, f"{RL}.promptsPerStep": 4}  # fmt: skip
    spared = train(**changes)
    assert set(jobs.metrics(spared, "zero_variance_groups")) == flat
    assert (True in went_back, False in went_back) == (flat != {1}, True)
    monkeypatch.setattr(PolicyTrainer, "_teaches", lambda *_: True)
    whole = train(**changes)
    for name in ("loss", "grad_norm", "entropy", "zero_variance_groups", "reward", "clip_low", "clip_high", "tokens"):
        assert jobs.metrics(spared, name) == jobs.metrics(whole, name), name
    assert jobs.adapter_bytes(spared) == jobs.adapter_bytes(whole)


@pytest.mark.requirement("R219", "R230")
def test_groups_whose_scores_are_alike_move_nothing(train):
    attempt = train(**{f"{RL}.maxSteps": 2, f"{RL}.klBeta": 0.0, f"{SPEC}.terms": [tiny.term("always:0.3")]})
    assert jobs.metrics(attempt, "zero_variance_groups") == [1, 1]
    assert jobs.metrics(attempt, "grad_norm") == [0, 0]
    assert {one["advantage"] for one in rollouts(attempt, 1)} == {0}


def test_a_failed_term_scores_zero_or_leaves_the_completion_out(train):
    terms = [tiny.term("vowels"), tiny.term("fail-odd")]
    zero, out = (train(**{f"{RL}.maxSteps": 1, f"{SPEC}.terms": terms, f"{SPEC}.onFailure": rule})
                 for rule in ("zero", "exclude"))  # fmt: skip
    one, other = rollouts(zero, 1), rollouts(out, 1)
    assert [line["completion"] for line in one] == [line["completion"] for line in other]
    failed = [line["terms"][1]["cause"] == "timeout" for line in one]
    assert 0 < sum(failed) < len(failed)
    assert [line["excluded"] for line in other] == failed
    assert all(line["score"] == line["terms"][0]["share"] for line, lost in zip(one, failed, strict=True) if lost)
    assert all((line["score"] is None, line["advantage"]) == (True, 0) for line in other if line["excluded"])
    for attempt, excluded in ((zero, 0), (out, sum(failed) / len(failed))):
        values = tiny.events_of(attempt, "metrics")[0]["values"]
        assert values["failures.timeout"] == values["term.fail-odd.failures"] == sum(failed)
        assert values["excluded"] == excluded


@pytest.mark.parametrize(("rule", "what"), [("zero", "reward's term fail-kinds"), ("exclude", "reward")])
def test_a_group_of_none_nan_an_error_and_a_timeout_leaves_figures_finite_and_ends_the_run_that_sees_no_other(
    train, rule, what
):
    terms = [tiny.term("vowels"), tiny.term("fail-kinds")]
    attempt = train(failed_updates=2, **{f"{SPEC}.terms": terms, f"{SPEC}.onFailure": rule})
    values = tiny.events_of(attempt, "metrics")[0]["values"]
    assert all(math.isfinite(value) for value in values.values())
    assert {name: values[f"failures.{name}"] for name in ("no_verdict", "error", "timeout")} == {
        "no_verdict": 4, "error": 2, "timeout": 2}  # fmt: skip
    assert ("reward" in values, values["excluded"]) == ((True, 0) if rule == "zero" else (False, 1))
    failed = jobs.failure(attempt)
    assert failed["code"] == "reward_failed"
    assert failed["reason"] == (f"The {what} scored no completion of 2 updates in a row, the last being 2; failures by "
                                "cause: no_verdict 8, error 4, timeout 4. The last one said: fail-kinds")  # fmt: skip
    assert failed["hint"].startswith("Mend what scores")
    assert [event["step"] for event in tiny.events_of(attempt, "rollouts")] == [1, 2]
    (kept,) = tiny.events_of(attempt, "snapshot")
    learned = load_file(attempt / kept["folder"] / "adapter_model.safetensors")
    assert (kept["step"], all(bool(tensor.isfinite().all()) for tensor in learned.values())) == (1, True)


def test_one_score_or_a_term_that_counts_for_nothing_keeps_a_run_going():
    def scored(*terms):
        return [Reward(None, [TermScore(str(at), score, 0.0, "" if score else "error", "")
                              for at, score in enumerate(terms)])]  # fmt: skip

    spec = {"terms": [tiny.term("0"), tiny.term("1", 0.0)], "onFailure": "zero"}
    watch = RewardFailures(RewardRule(spec), 2).watch
    for step, score in enumerate([None, 1.0, None, 1.0]):
        watch(step, scored(score, None))
    watch(4, scored(None, None))
    with pytest.raises(JobFailure, match="reward's term 0 "):
        watch(5, scored(None, 1.0))
    either = RewardFailures(RewardRule({**spec, "onFailure": "exclude"}), 2).watch
    either(0, scored(1.0, None))
    with pytest.raises(JobFailure, match="The reward scored"):
        either(1, scored(None, 1.0))
    for step in range(9):
        RewardFailures(RewardRule(spec), 0).watch(step, scored(None, None))


@pytest.mark.requirement("R223", "R225")
def test_a_run_that_stops_and_goes_on_ends_with_the_bytes_of_one_that_did_not(train):
    whole = train(**{f"{RL}.maxSteps": 4})
    first = train(**{f"{RL}.maxSteps": 4, "pause_at": 2})
    second = train(**{f"{RL}.maxSteps": 4, "first_attempt": False, "resume": jobs.newest_snapshot(first)})
    assert jobs.adapter_bytes(whole) == jobs.adapter_bytes(second)
    assert [rollouts(whole, step) for step in (3, 4)] == [rollouts(second, step) for step in (3, 4)]


def test_a_branch_that_keeps_the_training_state_goes_on_as_its_source_would_have(train):
    whole = train(**{f"{RL}.maxSteps": 4})
    first = train(**{f"{RL}.maxSteps": 2})
    branch = train(**{f"{RL}.maxSteps": 2, "start": start_from(first, "trainingState")})
    assert [rollouts(whole, step) for step in (3, 4)] == [rollouts(branch, step) for step in (1, 2)]
    assert jobs.adapter_bytes(whole) == jobs.adapter_bytes(branch)


@pytest.mark.requirement("R030", "R043", "R246", "R247")
@pytest.mark.parametrize("how", ["warm start", "weights branch"])
def test_a_run_from_an_adapter_keeps_its_shape_and_holds_to_it_and_resumes_its_own_training(train, how):
    source = train(**{f"{RL}.maxSteps": 3, f"{RL}.lora.rank": 2, f"{RL}.lora.alpha": 6,
                      f"{RL}.lora.targetModules": r".*\.(q_proj|v_proj)"})  # fmt: skip
    begin = {"warm_start": warm_start_from(source)} if how == "warm start" else {"start": start_from(source, "weights")}
    whole = train(**{f"{RL}.maxSteps": 3, **begin})
    assert jobs.metrics(whole, "kl")[0] == 0
    assert set(weights(whole)) == set(weights(source))
    config = json.loads((whole / "snapshots/step-3/adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 6)
    first = train(**{f"{RL}.maxSteps": 3, **begin, "pause_at": 2})
    second = train(**{f"{RL}.maxSteps": 3, **begin, "first_attempt": False, "resume": jobs.newest_snapshot(first)})
    assert jobs.adapter_bytes(second) == jobs.adapter_bytes(whole)
    (told,) = tiny.events_of(whole, "engine_config")
    assert told["resolved"]["policyLoss"]["reference"] == "the adapter it started from"


@pytest.mark.requirement("R030", "R043")
@pytest.mark.parametrize("how", ["warm start", "weights branch"])
def test_a_run_from_an_adapter_begins_with_its_weights(train, how):
    source = train(**{f"{RL}.maxSteps": 1})
    begin = {"warm_start": warm_start_from(source)} if how == "warm start" else {"start": start_from(source, "weights")}
    still = train(**{f"{RL}.maxSteps": 1, f"{RL}.optimizer.learningRate": 0.0, **begin})
    assert jobs.adapter_bytes(still) == jobs.adapter_bytes(source)


@pytest.mark.requirement("R247")
def test_a_run_from_an_adapter_keeps_its_dropout(train):
    source = train(**{f"{RL}.maxSteps": 1, f"{RL}.lora.dropout": 0.25})
    whole = train(warm_start=warm_start_from(source), **{f"{RL}.maxSteps": 1})
    assert json.loads((whole / "snapshots/step-1/adapter_config.json").read_text())["lora_dropout"] == 0.25


@pytest.mark.requirement("R236")
def test_a_run_tells_the_modules_its_adapter_covers(train):
    (told,) = tiny.events_of(train(**{f"{RL}.maxSteps": 1}), "engine_config")
    assert "q_proj" in told["requested"]["lora"]["target_modules"]
    assert told["resolved"]["policyLoss"]["reference"] == "the base model"


def test_a_warm_start_whose_files_are_others_is_refused(train):
    source = train(**{f"{RL}.maxSteps": 1})
    part = warm_start_from(source)
    part["sha256"]["adapter_model.safetensors"] = "0" * 64
    assert jobs.failure(train(warm_start=part))["code"] == "warm_start_invalid"


@pytest.mark.requirement("R218")
def test_maxsteps_overrides_epochs_and_an_epochs_last_update_has_what_prompts_are_left(train):
    attempt = train(**{f"{RL}.epochs": 1})
    assert [event["count"] for event in tiny.events_of(attempt, "rollouts")] == [8, 8, 4]
    assert len(jobs.metrics(train(**{f"{RL}.maxSteps": 5}), "loss")) == 5


def test_a_reward_that_cannot_score_is_told_before_the_model_is_loaded(train):
    attempt = train(**{f"{SPEC}.terms": [tiny.term("refuse")]})
    failed = jobs.failure(attempt)
    assert failed["code"] == "scorer_not_ready"
    assert failed["reason"] == "The reward cannot score: The module does not import."
    assert failed["hint"] == "Mend it."
    assert "loading" not in [event["name"] for event in tiny.events_of(attempt, "stage")]


def test_a_scorer_that_is_lost_is_started_once_more(train, tmp_path):
    attempt = train(**{f"{RL}.maxSteps": 1, f"{SPEC}.terms": [tiny.term(f"die-once:{tmp_path / 'mark'}")]})
    assert len(jobs.metrics(attempt, "loss")) == 1
    assert jobs.failure(train(**{f"{SPEC}.terms": [tiny.term("die")]}))["code"] == "scorer_lost"


@pytest.mark.requirement("R223")
@pytest.mark.parametrize(("ask", "kept"), [("pause", [1]), ("drop", [])])
def test_a_run_that_leaves_while_it_is_scored_keeps_the_update_before_and_nothing_of_this_one(
    train, tmp_path, monkeypatch, ask, kept
):
    monkeypatch.setattr(line_process, "END_SECONDS", 0.1)
    leaves = tiny.term(f"leave:{ask}:{tmp_path / 'attempt-0' / 'control.json'}")
    plan = {f"{RL}.maxSteps": 2, "execution.saveEvery": None}
    first = train(**plan, **{f"{SPEC}.terms": [leaves]})
    last = tiny.read_events(first)[-1]
    assert (last["type"], last["reason"], last["step"]) == ("stopped", ask, 1)
    assert [event["step"] for event in tiny.events_of(first, "rollouts")] == [1]
    assert [event["step"] for event in tiny.events_of(first, "snapshot")] == kept
    if kept:
        plan[f"{SPEC}.terms"] = [tiny.term("length")]
        second = train(**plan, first_attempt=False, resume=jobs.newest_snapshot(first))
        assert jobs.adapter_bytes(train(**plan)) == jobs.adapter_bytes(second)


@pytest.mark.parametrize(("temperature", "strict"), [(0.7, False), (0, False), (0.7, True), (0, True)])
def test_what_is_learned_from_is_what_was_sampled(train, temperature, strict):
    attempt = train(strict=strict, **{f"{RL}.maxSteps": 1, f"{RL}.temperature": temperature})
    checks = {check["name"]: check for check in tiny.events_of(attempt, "check")}
    assert checks["on_policy"]["passed"] and checks["on_policy"]["value"] < 1e-4
    assert checks["on_policy"]["detail"] == f"the log-probabilities of {jobs.metrics(attempt, 'trained_tokens')[0]} " \
        "sampled tokens"  # fmt: skip
    assert strict or checks["reference"]["passed"]


@pytest.mark.requirement("R223")
def test_a_greedy_group_is_one_completion_over_and_over(train):
    attempt = train(**{f"{RL}.maxSteps": 1, f"{RL}.temperature": 0})
    found = rollouts(attempt, 1)
    assert {len({line["completion"] for line in found if line["group"] == group}) for group in (0, 1)} == {1}
    assert jobs.metrics(attempt, "zero_variance_groups") == [1]


def test_completions_that_are_learned_from_with_dropout_are_not_held_to_what_they_were_sampled_by(train):
    attempt = train(**{f"{RL}.maxSteps": 1, f"{RL}.lora.dropout": 0.3})
    assert "on_policy" not in [check["name"] for check in tiny.events_of(attempt, "check")]


@pytest.mark.requirement("R164")
@pytest.mark.parametrize("strict", [False, True])
def test_fewer_completions_a_pass_sample_the_same_and_make_the_same_step(train, monkeypatch, strict):
    held, own = [], PolicyTrainer.completion_logps
    monkeypatch.setattr(PolicyTrainer, "completion_logps", lambda trainer, model, part: (
        held.append(len(part["lengths"])), own(trainer, model, part))[1])  # fmt: skip
    changes = {f"{RL}.maxSteps": 1, "strict": strict}
    one, most = train(**changes), max(held)
    held.clear()
    other = train(**changes, **{"execution.microBatchSequences": 1})
    assert (most, max(held)) == (4, 1)
    assert rollouts(one, 1) == rollouts(other, 1)
    for name in ("loss", "grad_norm", "entropy"):
        assert jobs.metrics(one, name) == pytest.approx(jobs.metrics(other, name), rel=1e-5, abs=1e-7), name


@pytest.mark.requirement("R246")
def test_the_plain_way_samples_and_computes_otherwise_and_goes_on_to_the_same_bytes_too(train):
    plain = {"strict": True, f"{RL}.maxSteps": 2, f"{RL}.groupSize": 2, "execution.microBatchSequences": 1}
    whole, first = train(**plain), train(**plain, pause_at=1)
    second = train(**plain, first_attempt=False, resume=jobs.newest_snapshot(first))
    assert jobs.adapter_bytes(whole) == jobs.adapter_bytes(second)
    assert tiny.events_of(whole, "engine_config")[0]["resolved"]["sampler"]["generation"] == "library"


def test_recomputing_activations_changes_no_number(train):
    one, other = (train(**{f"{RL}.maxSteps": 2, "config.model.gradientCheckpointing": recomputes})
                  for recomputes in (False, True))  # fmt: skip
    assert jobs.metrics(one, "grad_norm") == pytest.approx(jobs.metrics(other, "grad_norm"), rel=1e-5)
    assert rollouts(one, 2) == rollouts(other, 2)
