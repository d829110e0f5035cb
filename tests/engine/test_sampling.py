"""Sampling completions: greedy ones are an evaluation's, drawn ones follow the model's distribution."""

import itertools

import pytest
import torch
from optimize_child.answering.answers import Asked, Limits, answer_all
from optimize_child.answering.sampling import SLOTS, Manner, drawn, sample, sample_plainly
from optimize_child.bases.models import load_model
from tiny import ticket_rows

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def model(base_model):
    return load_model(base_model, device="cpu").eval()


@pytest.fixture(scope="module")
def prompts(tokenizer):
    """Prompts of unequal length with a shared beginning."""
    texts = [tokenizer.apply_chat_template(row["messages"][:-1], add_generation_prompt=True, tokenize=False)
             for row in ticket_rows(3)]  # fmt: skip
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


def manner(**changes):
    limits = Limits(frozenset(range(0, 400, 25)), 16)
    return Manner(**{"group_size": 4, "temperature": 0.8, "limits": limits, "seed": 1, "pad_token_id": 0, **changes})


def sampled(model, prompts, how, place=0, *, plainly=False):
    asked = how.asked(prompts, place)
    if plainly:
        sample_plainly(model, asked, how, place)
    else:
        sample(model, asked, how)
    return asked


@pytest.mark.requirement("R223")
@pytest.mark.parametrize("plainly", [False, True])
def test_at_temperature_zero_completions_are_the_answers_of_an_evaluation(model, prompts, plainly):
    how = manner(temperature=0.0, group_size=2)
    asked = [Asked(at, prompt) for at, prompt in enumerate(prompts)]
    answers = {one.key: (one.answer, one.finish) for one in answer_all(model, asked, how.limits, slots=3)}
    for one in sampled(model, prompts, how, plainly=plainly):
        assert (one.answer, one.finish) == answers[one.group]
        assert one.tokens[: len(one.answer)] == one.answer
        assert (len(one.tokens) - len(one.answer)) == (one.finish == "stop")


def test_what_was_sampled_ends_with_the_token_it_ended_at_and_carries_its_own_log_probability(model, prompts):
    found = sampled(model, prompts, manner())
    assert {one.finish for one in found} == {"stop", "length"}
    for one in found:
        assert one.finish == "length" or one.tokens[-1] % 25 == 0
        assert not any(token % 25 == 0 for token in one.answer)
        ids = torch.tensor([one.prompt + one.tokens])
        logps = (model(ids).logits[0, len(one.prompt) - 1 : -1] / 0.8).log_softmax(-1)
        expected = logps.gather(1, torch.tensor(one.tokens)[:, None])[:, 0]
        assert one.logps == pytest.approx(expected.tolist(), abs=1e-4)


def test_draws_are_a_function_of_seed_place_prompt_and_index(model, prompts):
    one, again = (sampled(model, prompts, manner(), place=7) for _ in range(2))
    assert [line.tokens for line in one] == [line.tokens for line in again]
    assert len({tuple(line.tokens) for line in one if line.group == 0}) == 4
    later, other = sampled(model, prompts, manner(), place=8), sampled(model, prompts, manner(seed=2), place=7)
    assert [line.tokens for line in one] != [line.tokens for line in later]
    assert [line.tokens for line in one] != [line.tokens for line in other]
    plain, replayed = (sampled(model, prompts, manner(), place=7, plainly=True) for _ in range(2))
    assert [line.tokens for line in plain] == [line.tokens for line in replayed]


def test_more_completions_than_slots_are_all_sampled_and_each_as_if_alone(model, prompts):
    how = manner(group_size=SLOTS // 2 + 3)
    many = sampled(model, prompts, how)
    assert all(one.finish for one in many) and len(many) == 3 * (SLOTS // 2 + 3)
    few = sampled(model, prompts, manner(group_size=2))
    assert [one.tokens for one in few] == [one.tokens for one in many if one.key[1] < 2]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_model_says(temperature):
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0, float("-inf")]])
    count = 20_000
    tokens, logps = drawn(logits.expand(count, -1), [(at + 0.5) / count for at in range(count)], temperature)
    expected = (logits[0] / temperature).softmax(-1)
    for token, share in enumerate(expected.tolist()):
        assert tokens.count(token) / count == pytest.approx(share, abs=2e-4)
    assert all(a <= b for a, b in itertools.pairwise(tokens))
    assert logps[0] == pytest.approx(float(expected[tokens[0]].log()), rel=1e-5)
