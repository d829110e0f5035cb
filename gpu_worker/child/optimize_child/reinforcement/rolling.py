"""Rolling out prompts: completions sampled from the policy as it is, scored, and set beside their groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from optimize_child.answering.sampling import Manner, Sampled
from optimize_child.reinforcement.prompts import Prompt
from optimize_child.reinforcement.rewards import Reward, RewardRule, reward_figures
from optimize_child.reinforcement.rollouts import Rollout, advantages_of, length_figures
from optimize_child.reinforcement.samplers import Sampler
from optimize_child.scorer_process import ScorerProcess


class Rolled(NamedTuple):
    """An update's rollouts and figures; `logps` are the sampler's own log-probabilities, where it tells them."""

    rollouts: list[Rollout]
    figures: dict[str, float]
    logps: list[float] | None


class Roller:
    """Makes the rollouts of one update after another."""

    def __init__(
        self,
        *,
        manner: Manner,
        scorer: ScorerProcess,
        rule: RewardRule,
        text_of: Callable[[list[int]], str],
        sampler: Sampler,
    ) -> None:
        self.manner = manner
        self.sampler = sampler
        self._scorer = scorer
        self._rule = rule
        self._text_of = text_of

    def roll_out(self, model: Any, prompts: Sequence[Prompt], place: int, *, update: int) -> Rolled:
        """The scored completions of some prompts, groups in their order. `place` is where in the data's order they
        stand, `update` the number of the run's update that they are for."""
        began = time.perf_counter()
        asked = self._sample(model, prompts, place, update)
        texts = [self._text_of(one.answer) for one in asked]
        sampled = time.perf_counter()
        terms = self._scorer.ask([_item(prompts[one.group], text) for one, text in zip(asked, texts, strict=True)])
        rewards = self._rule.rewards(terms, len(asked))
        seconds = {"generate_seconds": sampled - began, "reward_seconds": time.perf_counter() - sampled}
        advantages, flat = advantages_of(rewards, self.manner.group_size)
        rollouts = [
            _rollout(one, prompts[one.group], text, reward, advantage)
            for one, text, reward, advantage in zip(asked, texts, rewards, advantages, strict=True)
        ]
        figures = {**reward_figures(self._rule, rewards, terms), "zero_variance_groups": flat,
                   **length_figures(rollouts), **seconds}  # fmt: skip
        return Rolled(rollouts, figures, _logps(asked))

    def _sample(self, model: Any, prompts: Sequence[Prompt], place: int, update: int) -> list[Sampled]:
        asked = self.manner.asked([prompt.tokens for prompt in prompts], place)
        with evaluating(model):
            self.sampler.sample(model, asked, self.manner, place, update=update)
        return asked


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model computes without dropout inside."""
    mode = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(mode)


def _item(prompt: Prompt, text: str) -> dict[str, Any]:
    return {"row": prompt.row, "prompt": prompt.messages, "tools": None, "completion": text, "calls": None,
            "expected": prompt.expected, "columns": prompt.columns}  # fmt: skip


def _rollout(one: Sampled, prompt: Prompt, text: str, reward: Reward, advantage: float) -> Rollout:
    group, index = one.key
    return Rollout(group, index, prompt, one.tokens, text, one.finish, reward, advantage)


def _logps(asked: Sequence[Sampled]) -> list[float] | None:
    if any(len(one.logps) != len(one.tokens) for one in asked):
        return None
    return [logp for one in asked for logp in one.logps]
