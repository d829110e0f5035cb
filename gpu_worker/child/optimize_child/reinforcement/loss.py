"""The losses of GRPO (https://arxiv.org/abs/2402.03300) and GSPO (https://arxiv.org/abs/2507.18071), token by token.

Completions lie end to end in one vector, `lengths` tokens each; nothing here knows how they were computed. A run makes
one update of each batch of completions, with the weights that sampled them: the old log-probabilities are the new ones
without their gradient, and every ratio is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

Level = Literal["token", "sequence"]
MOST_WEIGHT = 3.0
"""How much likelier than to what sampled it a completion may be to the trainer before it is left out; TRL's default."""


@dataclass(frozen=True)
class Objective:
    """What is made small. `level` is where the ratio lives: each token's own (GRPO) or the completion's (GSPO).

    The mean goes over all tokens of the update at `token`, so that every token weighs the same (DAPO's, and TRL's
    default); at `sequence` over each completion's tokens and then over the completions, as the GSPO paper has it.
    """

    level: Level
    beta: float
    clip_low: float
    clip_high: float


def objective_of(method: str, beta: float) -> Objective:
    """The objective of a method. The clip's bounds are TRL's default and the GSPO paper's; a ratio of one meets
    neither."""
    if method == "gspo":
        return Objective("sequence", beta, 3e-4, 4e-4)
    return Objective("token", beta, 0.2, 0.2)


class TokenLosses(NamedTuple):
    """One value a token: the clipped surrogate, the KL estimate (None without a penalty), and where the clip holds."""

    surrogate: torch.Tensor
    kl: torch.Tensor | None
    low: torch.Tensor
    high: torch.Tensor


def token_losses(
    logps: torch.Tensor,
    old: torch.Tensor,
    reference: torch.Tensor | None,
    advantages: torch.Tensor,
    lengths: torch.Tensor,
    objective: Objective,
) -> TokenLosses:
    """The losses of each token. `logps`, `old`, `reference`: [tokens]; `advantages`, `lengths`: [completions].

    The KL estimate is weighed by the ratio. A ratio of one leaves its value as it is, and turns its gradient into that
    of the divergence itself (https://arxiv.org/abs/2512.02556); TRL does so by default.
    """
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=logps.device), lengths)
    ratio, advantage = ratios(logps, old, lengths, objective.level), advantages[owner]
    bounded = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high)
    surrogate = -torch.min(ratio * advantage, bounded * advantage)
    low = (ratio < 1 - objective.clip_low) & (advantage < 0)
    high = (ratio > 1 + objective.clip_high) & (advantage > 0)
    return TokenLosses(surrogate, None if reference is None else ratio * kl_estimate(logps, reference), low, high)


def ratios(logps: torch.Tensor, old: torch.Tensor, lengths: torch.Tensor, level: Level) -> torch.Tensor:
    """How much likelier each token has become; at `sequence` the geometric mean over its completion, at each token."""
    moved = logps - old
    if level == "token":
        return moved.exp()
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=logps.device), lengths)
    sums = torch.zeros(len(lengths), dtype=moved.dtype, device=moved.device).index_add(0, owner, moved)
    return (sums / lengths).exp()[owner]


def kl_estimate(logps: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Schulman's third estimator of the KL divergence from the reference, never negative; zero where both agree."""
    apart = reference - logps
    return torch.expm1(apart) - apart


def completion_weights(logps: torch.Tensor, sampled: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """What each completion counts where another engine's probabilities drew it: how much likelier it is to the trainer,
    and nothing above `MOST_WEIGHT`. `logps`, `sampled`: [tokens]; gives [completions].

    The engine samples from almost the policy, not from it, and this weight makes the update one of the policy again.
    It is TRL's `vllm_importance_sampling_mode: sequence_mask`.
    """
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=logps.device), lengths)
    sums = torch.zeros(len(lengths), dtype=logps.dtype, device=logps.device)
    weights = sums.index_add(0, owner, logps.detach() - sampled).exp()
    return weights.masked_fill(weights > MOST_WEIGHT, 0.0)


def token_weights(lengths: torch.Tensor, level: Level, *, tokens: int, completions: int) -> torch.Tensor:
    """What each token counts in the mean over an update of so many tokens and completions."""
    each = torch.full_like(lengths, 1 / tokens, dtype=torch.float32)
    if level == "sequence":
        each = 1 / (lengths.float() * completions)
    return torch.repeat_interleave(each, lengths)
