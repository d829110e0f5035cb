"""An update's completions with their rewards and advantages: what the update learns from, and the file they stay in."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize_child.reinforcement.advantages import group_advantages
from optimize_child.reinforcement.layout import Completions
from optimize_child.reinforcement.prompts import Prompt
from optimize_child.reinforcement.rewards import Reward


@dataclass(frozen=True)
class Rollout:
    """One scored completion. `tokens` are what was sampled, and what the update scores."""

    group: int
    index: int
    prompt: Prompt
    tokens: list[int]
    text: str
    finish: str
    reward: Reward
    advantage: float

    def document(self) -> dict[str, Any]:
        """The rollout as a line of its update's file."""
        return {
            "group": self.group,
            "index": self.index,
            "row": self.prompt.row,
            "prompt": self.prompt.messages,
            "tools": None,
            "completion": self.text,
            "tokens": len(self.tokens),
            "finish": self.finish,
            "score": self.reward.total,
            "advantage": self.advantage,
            "excluded": self.reward.is_excluded,
            "terms": [term.document() for term in self.reward.terms],
        }


def advantages_of(rewards: Sequence[Reward], group_size: int) -> tuple[list[float], float]:
    """The advantage of each completion, groups in order, and the share of groups that have nothing to tell."""
    groups = [rewards[start : start + group_size] for start in range(0, len(rewards), group_size)]
    found = [group_advantages([reward.total for reward in group]) for group in groups]
    values = [value for group in found for value in group.values]
    return values, sum(group.is_flat for group in found) / len(found)


def groups_of(rollouts: Sequence[Rollout], group_size: int) -> list[Completions]:
    """The completions of each prompt, as the layouts take them."""
    return [
        Completions(group[0].prompt.tokens, [rollout.tokens for rollout in group], start)
        for start in range(0, len(rollouts), group_size)
        if (group := rollouts[start : start + group_size])
    ]


def write_rollouts(attempt: Path, step: int, rollouts: Sequence[Rollout]) -> str:
    """Write an update's rollouts, whole or not at all; gives the file's path within the attempt's folder."""
    name = f"rollouts/{step:08d}.jsonl"
    path = attempt / name
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w") as file:
        file.writelines(json.dumps(rollout.document()) + "\n" for rollout in rollouts)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return name


def length_figures(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """How long an update's completions are, in tokens; the mean of those that ended where any did."""
    lengths = [len(rollout.tokens) for rollout in rollouts]
    ended = [len(rollout.tokens) for rollout in rollouts if rollout.finish == "stop"]
    return {
        "completion_mean": statistics.fmean(lengths),
        "completion_min": float(min(lengths)),
        "completion_max": float(max(lengths)),
        "completion_clipped": 1 - len(ended) / len(rollouts),
        **({"completion_ended_mean": statistics.fmean(ended)} if ended else {}),
    }
