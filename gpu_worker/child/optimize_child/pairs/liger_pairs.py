"""Liger's fused loss of one preference pair, against reference log-probabilities that are known.

Liger's own module (`LigerFusedLinearDPOLoss`) computes a reference model beside the policy at every step. A run reads
its reference once (see pairs.trainer), so the numbers are handed to Liger's loss instead of a second model.
Importing this module needs liger-kernel; nothing in it needs Triton.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from liger_kernel.chunked_loss.dpo_loss import LigerFusedLinearDPOFunction
from liger_kernel.chunked_loss.fused_linear_preference import LigerFusedLinearPreferenceBase

from optimize_child.pairs.loss import preference_loss
from optimize_child.reading.token_rows import IGNORED


class Head(NamedTuple):
    """A linear output head: `weight` is [vocabulary, hidden], `bias` [vocabulary] or None."""

    weight: torch.Tensor
    bias: torch.Tensor | None


def pair_loss(
    hidden: torch.Tensor, head: Head, labels: torch.Tensor, reference: torch.Tensor, *, beta: float, loss_type: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of a pair and the log-probability of both its answers.

    `hidden` is [2, tokens, hidden], chosen first, each position beside the label it predicts in `labels`, [2, tokens];
    `reference` the log-probabilities of both answers under the reference, [2]. Gradients reach `hidden` and the head
    through the loss alone.
    """
    found = LOSSES[loss_type].apply(hidden, head.weight, labels, head.bias, reference, beta)
    loss, (chosen, rejected, *_) = found
    return loss, torch.cat((chosen, rejected))


class _Sigmoid(LigerFusedLinearDPOFunction):
    """The loss of the DPO paper."""

    options: dict[str, Any] = {"loss_type": "sigmoid"}

    @classmethod
    def forward(
        cls,
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        bias: torch.Tensor | None,
        reference: torch.Tensor,
        beta: float,
    ) -> Any:
        """Not compiled: that would save a few of the head's hundredths, and would need a compiler on the machine."""
        return LigerFusedLinearPreferenceBase.forward(
            cls=cls,
            ctx=ctx,
            _input=hidden,
            weight=weight,
            target=labels,
            bias=bias,
            ignore_index=IGNORED,
            beta=beta,
            compute_nll_loss=False,
            compiled=False,
            use_ref_model=False,
            average_log_prob=False,
            ref_chosen_logps=reference[:1],
            ref_rejected_logps=reference[1:],
            **cls.options,
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """One gradient for each of `forward`'s arguments, in their order; none for the reference and beta."""
        found = LigerFusedLinearPreferenceBase.backward(ctx, gradients)[:4]
        return *found, None, None


class _Ipo(_Sigmoid):
    """The loss of the IPO paper over means per token, which Liger leaves to others: it is given no lengths."""

    options: dict[str, Any] = {}

    @staticmethod
    def preference_loss_fn(
        chosen_logps: torch.Tensor,
        rejected_logps: torch.Tensor,
        full_target: torch.Tensor,
        ref_chosen_logps: torch.Tensor,
        ref_rejected_logps: torch.Tensor,
        beta: float,
    ) -> torch.Tensor:
        moved = torch.cat((chosen_logps - ref_chosen_logps, rejected_logps - ref_rejected_logps))
        return preference_loss(moved, (full_target != IGNORED).sum(-1), beta=beta, loss_type="ipo").sum()


LOSSES: dict[str, type[torch.autograd.Function]] = {"sigmoid": _Sigmoid, "ipo": _Ipo}
