"""How far the engine that sampled an update and the trainer are apart about it, and what a completion counts for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from optimize_child.reinforcement.loss import completion_weights
from optimize_child.reinforcement.rollouts import Rollout


class EngineGap:
    """The engine's own log-probabilities of an update's tokens, beside the trainer's as passes compute them."""

    def __init__(self, rollouts: Sequence[Rollout], logps: Sequence[float]) -> None:
        self._starts = [0, *accumulate(len(rollout.tokens) for rollout in rollouts)]
        self._logps = torch.tensor(logps)
        self._tokens, self._apart, self._left_out = 0, 0.0, 0

    def weights(self, logps: torch.Tensor, part: dict[str, Any]) -> torch.Tensor:
        """What each token of a pass counts; `logps` are the trainer's of its completions, end to end."""
        first, lengths = part["first"], part["lengths"].to(logps.device)
        drawn = self._logps[self._starts[first] : self._starts[first + len(lengths)]].to(logps)
        weights = completion_weights(logps, drawn, lengths)
        self._tokens += len(drawn)
        self._apart += float((logps.detach() - drawn).abs().sum())
        self._left_out += int(lengths[weights == 0].sum())
        return torch.repeat_interleave(weights, lengths)

    def figures(self) -> dict[str, float]:
        """The mean difference of a token's log-probability, and the share of tokens that were left out."""
        if not self._tokens:
            return {}
        return {"sampler_gap": self._apart / self._tokens, "sampler_left_out": self._left_out / self._tokens}
