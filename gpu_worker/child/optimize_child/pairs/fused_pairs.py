"""Many preference pairs a pass on a GPU, the head one pair at a time: whether a run may, and how a pass is computed.

The decoder computes all rows of the pass at once. What takes the memory is the head, whose logits are as wide as the
vocabulary: Liger's fused loss computes those of one pair, their gradient with them, and lets them go before the next.
"""

from __future__ import annotations

from typing import Any

import torch

from optimize_child.reading.token_rows import IGNORED
from optimize_child.training.trl_arguments import liger_usable

RESCALES = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
"""Names under which model configurations say that logits are more than hidden state times head."""


def why_not(model: Any, device: str) -> str | None:
    """Why a run over this base model may not; None where it may."""
    if not _is_usable(device):
        return "Liger's kernels cannot be used: liger-kernel or triton cannot be imported"
    return _about_head(model)


def _is_usable(device: str) -> bool:
    return device == "cuda" and liger_usable()


def _about_head(model: Any) -> str | None:
    config = model.config
    if hasattr(config, "vision_config") or hasattr(config, "audio_config"):
        return "the model reads more than text"
    if type(model.get_output_embeddings()) is not torch.nn.Linear:
        return "the model's output head is no plain linear layer"
    scaled = [name for name in RESCALES if getattr(config, name, None) not in (None, 1)]
    return f"the model rescales its logits ({scaled[0]})" if scaled else None


def fused_losses(
    model: Any, inputs: dict[str, Any], labels: torch.Tensor, reference: torch.Tensor, *, beta: float, loss_type: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """The summed loss of a padded pass's pairs, and the log-probability of each row's answer.

    `labels` [rows, tokens] are on the CPU, so that finding the answers in them does not wait for the device; rows are
    chosen, rejected, chosen, … as in `reference`, [rows].
    """
    from optimize_child.pairs.liger_pairs import Head, pair_loss  # liger-kernel is on machines with a GPU

    hidden = model.get_decoder()(**inputs, use_cache=False).last_hidden_state[:, :-1]
    output = model.get_output_embeddings()
    head, found = Head(output.weight, output.bias), []
    for first in range(0, len(labels), 2):
        rows, (start, end) = slice(first, first + 2), _answers(labels[first : first + 2, 1:])
        targets = labels[rows, 1:][:, start:end].to(hidden.device)
        own = reference[rows]
        found.append(pair_loss(hidden[rows, start:end], head, targets, own, beta=beta, loss_type=loss_type))
    losses, logps = zip(*found, strict=True)
    return torch.stack(losses).sum(), torch.cat(logps)


def _answers(labels: torch.Tensor) -> tuple[int, int]:
    """From the first column in which a row of a pair has a label to behind the last: the prompt before needs no logits,
    and neither does the padding."""
    columns = (labels != IGNORED).any(dim=0).nonzero()
    return int(columns[0]), int(columns[-1]) + 1
