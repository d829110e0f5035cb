"""The numbers of GRPO and GSPO: beside float64 written out from the papers, and beside TRL's own trainer."""

import itertools
import math
import random
import statistics

import plain_grpo
import pytest
import tiny
import torch
from optimize_child.reinforcement.advantages import group_advantages
from optimize_child.reinforcement.loss import Objective, objective_of, token_losses, token_weights
from optimize_child.reinforcement.trainer import PolicyTrainer
from peft import get_peft_model_state_dict
from test_rl import RL, SPEC, train  # noqa: F401 - a fixture

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.requirement("R219", "R230")
@pytest.mark.parametrize("seed", range(5))
def test_advantages_are_scores_beside_their_groups_mean_in_its_spread(seed):
    scores = [score * 3 for score in random.Random(seed).choices([0, 0.1, 0.5, 1], k=6)]
    assert len(set(scores)) > 1
    found = group_advantages(scores)
    mean = sum(scores) / 6
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores) / 5)
    assert found.values == pytest.approx([(score - mean) / (spread + 1e-4) for score in scores], abs=1e-12)
    assert sum(found.values) == pytest.approx(0, abs=1e-9)


def test_scores_that_are_alike_or_alone_tell_nothing_and_excluded_ones_count_for_nothing():
    assert group_advantages([0.1 + 0.2] * 4) == ([0.0] * 4, True)
    assert group_advantages([None, 1.0, None]) == ([0.0] * 3, True)
    with_others, alone = group_advantages([0.0, None, 1.0, 0.25]), group_advantages([0.0, 1.0, 0.25])
    assert [with_others.values[at] for at in (0, 2, 3)] == alone.values
    assert with_others.values[1] == 0


@pytest.mark.parametrize(("level", "beta"), [("token", 0.04), ("sequence", 0.04), ("token", 0.0)])
@pytest.mark.parametrize("seed", range(3))
def test_losses_are_those_of_the_papers_in_float64(level, beta, seed):
    rng = random.Random(seed)
    lengths = [rng.randint(1, 7) for _ in range(5)]
    completions = [[rng.gauss(-2, 1) for _ in range(length)] for length in lengths]
    old, reference = ([[logp + rng.gauss(0, size) for logp in row] for row in completions] for size in (0.3, 0.5))
    advantages = [rng.gauss(0, 1) for _ in lengths]
    objective = Objective(level, beta, 0.1, 0.2)
    expected = written_out(completions, old, reference, advantages, objective)
    flat = [torch.tensor(list(itertools.chain(*rows)), dtype=torch.float64) for rows in (completions, old, reference)]
    sizes = torch.tensor(lengths)
    losses = token_losses(*flat, torch.tensor(advantages, dtype=torch.float64), sizes, objective)
    weights = token_weights(sizes, level, tokens=sum(lengths), completions=len(lengths))
    found = (weights * (losses.surrogate + beta * losses.kl)).sum()
    assert float(found) == pytest.approx(expected, abs=1e-6)


def written_out(completions, old, reference, advantages, objective: Objective) -> float:
    """The objective as the papers write it, number by number."""
    per_completion = []
    for logps, before, from_, advantage in zip(completions, old, reference, advantages, strict=True):
        moved = [now - then for now, then in zip(logps, before, strict=True)]
        whole = math.exp(sum(moved) / len(moved))
        tokens = []
        for now, there, step in zip(logps, from_, moved, strict=True):
            ratio = whole if objective.level == "sequence" else math.exp(step)
            bounded = min(max(ratio, 1 - objective.clip_low), 1 + objective.clip_high)
            kl = ratio * (math.exp(there - now) - (there - now) - 1)
            tokens.append(-min(ratio * advantage, bounded * advantage) + objective.beta * kl)
        per_completion.append(tokens)
    if objective.level == "token":
        return sum(map(sum, per_completion)) / sum(map(len, per_completion))
    return statistics.fmean(statistics.fmean(tokens) for tokens in per_completion)


@pytest.mark.parametrize("method", ["grpo", "gspo"])
@pytest.mark.parametrize("beta", [0.0, 0.04])
def test_losses_and_gradients_are_trls_where_the_weights_have_moved_since_they_sampled(method, beta):
    generator, lengths = torch.Generator().manual_seed(5), [3, 1, 7, 4] * 3
    logps, moved, apart = torch.randn(3, sum(lengths), generator=generator, dtype=torch.float64)
    advantages = torch.tensor([1.5, -0.5, -1.25, 0.75] * 3, dtype=torch.float64)
    objective, sizes = objective_of(method, beta), torch.tensor(lengths)
    likelier = torch.tensor([0.3] * 4 + [-0.3] * 4 + [0.0] * 4).repeat_interleave(sizes)
    old, reference = logps - likelier + 0.1 * moved, logps + 0.5 * apart
    weights = token_weights(sizes, objective.level, tokens=sum(lengths), completions=len(lengths))

    def ours(policy):
        losses = token_losses(policy, old, reference if beta else None, advantages, sizes, objective)
        assert losses.low.any() and losses.high.any(), "the clip holds here and there"
        return (weights * (losses.surrogate + (beta * losses.kl if beta else 0))).sum()

    def theirs(policy):
        return plain_grpo.loss_of(policy, old, reference, advantages, lengths, method=method, beta=beta)

    found = [loss_and_gradient(loss, logps) for loss in (ours, theirs)]
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def loss_and_gradient(loss, logps) -> list[float]:
    policy = logps.clone().requires_grad_()
    value = loss(policy)
    value.backward()
    return [value.item(), *policy.grad.tolist()]


def test_where_the_clip_holds_is_told():
    logps, old = torch.tensor([0.5, -0.5, 0.5, -0.5]), torch.zeros(4)
    losses = token_losses(
        logps, old, None, torch.tensor([1.0, -1.0]), torch.tensor([2, 2]), Objective("token", 0, 0.2, 0.2)
    )
    assert losses.high.tolist() == [True, False, False, False]
    assert losses.low.tolist() == [False, False, False, True]
    assert losses.kl is None


@pytest.mark.requirement("R225")
@pytest.mark.parametrize("method", ["grpo", "gspo"])
def test_one_update_by_the_weights_that_sampled_is_the_gradient_of_the_advantages(method):
    """A ratio of one: the gradient is that of -advantage times log-probability, in the method's own mean."""
    logps = torch.randn(6, dtype=torch.float64, requires_grad=True)
    advantages, lengths = torch.tensor([1.5, -0.5], dtype=torch.float64), torch.tensor([2, 4])
    objective = objective_of(method, 0.0)
    losses = token_losses(logps, logps.detach(), None, advantages, lengths, objective)
    (losses.surrogate * token_weights(lengths, objective.level, tokens=6, completions=2)).sum().backward()
    shares = [1 / 6] * 6 if method == "grpo" else [1 / 4] * 2 + [1 / 8] * 4
    expected = [-a * share for a, share in zip([1.5] * 2 + [-0.5] * 4, shares, strict=True)]
    assert logps.grad.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.fixture
def recorded(monkeypatch):
    """The updates of runs in this test, as they are learned from."""
    updates = []
    learn = PolicyTrainer.learn

    def recording(self, model, rolled):
        weights = {name: tensor.detach().clone() for name, tensor in get_peft_model_state_dict(self.model).items()}
        updates.append(plain_grpo.Update(weights, rolled.rollouts))
        return learn(self, model, rolled)

    monkeypatch.setattr(PolicyTrainer, "learn", recording)
    return updates


@pytest.mark.requirement("R222", "R223")
@pytest.mark.parametrize("strict", [False, True], ids=["shared", "padded"])
@pytest.mark.parametrize("method", ["grpo", "gspo"])
def test_updates_are_those_of_trls_trainer_over_the_same_completions(
    train,  # noqa: F811
    base_model,
    tmp_path,
    recorded,
    monkeypatch,
    method,
    strict,
):
    # A model of random weights hardly ever ends an answer by itself.
    monkeypatch.setattr("optimize_child.rl.stop_ids", lambda *_: frozenset(range(0, 400, 20)))
    terms = [tiny.term("vowels"), tiny.term("fail-some", 0.2)]
    changes = {"entry": method, "config.method": method, f"{RL}.temperature": 0.9, f"{RL}.klBeta": 0.1,
               f"{RL}.maxCompletionLength": 30, f"{SPEC}.terms": terms, f"{SPEC}.onFailure": "exclude"}  # fmt: skip
    attempt = train(tiny.ticket_rows(6), strict=strict, **changes)
    ours = [event["values"] for event in tiny.events_of(attempt, "metrics")]
    config = tiny.rl_plan(base_model, [], **changes)["config"]
    theirs = plain_grpo.replayed(base_model, recorded, tmp_path / "plain", config)
    assert len({len(tokens) for update in recorded for tokens in update.completions}) > 1
    assert any(score is None for update in recorded for score in update.scores)
    (told,) = tiny.events_of(attempt, "engine_config")
    assert (told["resolved"]["path"]["kind"] == "unpadded") is not strict
    for our, their, update in zip(ours, theirs, recorded, strict=True):
        assert update.advantages == pytest.approx(their["advantages"], abs=1e-6)
        assert our["loss"] == pytest.approx(their["loss"], abs=1e-6)
        assert our["grad_norm"] == pytest.approx(their["grad_norm"], rel=2e-5)
        assert our["kl"] == pytest.approx(their["kl"], abs=1e-6)
        assert our["entropy"] == pytest.approx(their["entropy"], rel=1e-6)
        assert our["reward"] == pytest.approx(their["reward"], rel=1e-6)
        assert our["reward_std"] == pytest.approx(their["reward_std"], rel=1e-5)
        assert our["completion_mean"] == their["completions/mean_length"]
