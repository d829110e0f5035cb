"""The losses of preference pairs, given how far the policy moved on each answer."""

from __future__ import annotations

import torch
from torch.nn.functional import logsigmoid


def preference_loss(moved: torch.Tensor, lengths: torch.Tensor, *, beta: float, loss_type: str) -> torch.Tensor:
    """The loss of each pair. `moved` is policy minus reference log-probability of rows chosen, rejected, chosen, …

    `sigmoid` is equation 7 of the DPO paper; `ipo` equation 17 of the IPO paper over means per token, as TRL has it.
    """
    if loss_type == "ipo":
        mean = moved / lengths.clamp(min=1)
        return (mean[0::2] - mean[1::2] - 1 / (2 * beta)) ** 2
    return -logsigmoid(beta * (moved[0::2] - moved[1::2]))
