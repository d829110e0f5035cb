"""Direct preference optimisation over our updates: https://arxiv.org/abs/2305.18290, and IPO of 2310.12036.

The loss of a pair compares how far the policy moved from its reference on the chosen answer and on the rejected one.
The reference is the model as the run found it: its log-probabilities are read once, before the first update, which
gives every attempt of a run the same ones and lets a step compute one model instead of two.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from optimize_child.pairs.fused_pairs import fused_losses
from optimize_child.pairs.loss import preference_loss
from optimize_child.reading.token_rows import IGNORED
from optimize_child.training.trainer import SupervisedTrainer, count_trained

INPUTS = ("input_ids", "position_ids", "attention_mask", "segments")


class PreferenceTrainer(SupervisedTrainer):
    """The trainer of supervised runs with the loss of preference pairs; a pass holds whole pairs."""

    def __init__(self, *, preference: dict[str, Any], **supervised: Any) -> None:
        self._beta = float(preference["beta"])
        self._loss_type = preference["lossType"]
        self.reference: dict[int, float] = {}
        super().__init__(**supervised)

    def read_reference(self, passes: Iterable[dict[str, Any]], *, of_base: bool) -> None:
        """Keep the log-probability of every answer in some passes under the model as it is now, or, with `of_base`,
        under the model without its adapter. The first update's time begins after it."""
        with self._untouched(), self.model.disable_adapter() if of_base else nullcontext():
            for part in passes:
                self.reference.update(zip(part["rows"].tolist(), self._logps(part).tolist(), strict=True))
        self._boundary = time.perf_counter()

    def answer_loss(self, passes: Sequence[dict[str, Any]]) -> float:
        """How unlikely the answers of some passes are, a token: the mean of their negative log-probabilities."""
        with self._untouched():
            logps = sum(float(self._logps(part).sum()) for part in passes)
        return -logps / sum(count_trained(part) for part in passes)

    def _logps(self, part: dict[str, Any]) -> torch.Tensor:
        """The log-probability of each row's answer, computed as the updates will."""
        if self._path.kind != "fused":
            return self.answer_logps(self.model, part)[0]
        return self._fused(part, torch.zeros(len(part["rows"]), device=self.args.device))[1]

    @contextmanager
    def _untouched(self) -> Iterator[None]:
        mode = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.model.train(mode)

    def answer_logps(self, model: Any, part: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """For each row of a pass the summed log-probability of its answer, fp32, and the answer's length in tokens."""
        inputs = self._prepare_inputs({name: part[name] for name in INPUTS if name in part})
        with self.compute_loss_context_manager():
            if "segments" in part:
                return _unpadded(model, inputs, self._prepare_inputs(part["shift_labels"]))
            return _padded(model, inputs, self._prepare_inputs(part["labels"]))

    def _fused(self, part: dict[str, Any], reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The summed loss of a pass's pairs and the log-probability of each row's answer, with Liger's loss.

        The decoder is called below the wrapper in which the trainer computes in lower precision; so that is said here.
        """
        inputs = self._prepare_inputs({name: part[name] for name in INPUTS if name in part})
        base = self.model.get_base_model()
        with self.accelerator.autocast():
            return fused_losses(base, inputs, part["labels"], reference, beta=self._beta, loss_type=self._loss_type)

    def share_of(self, part: dict[str, Any]) -> int:
        return len(part["rows"]) // 2

    def whole_of(self, inputs: dict[str, Any]) -> int:
        return sum(self.share_of(part) for part in inputs["passes"])

    def perplexity_of(self, loss: float) -> float | None:
        return None

    def pass_loss(self, model: Any, part: dict[str, Any], whole: int) -> torch.Tensor:
        """The summed loss of a pass's pairs, over the number of pairs of the whole."""
        reference = torch.tensor([self.reference[row] for row in part["rows"].tolist()], device=self.args.device)
        if self._path.kind == "fused":
            total, logps = self._fused(part, reference)
        else:
            logps, lengths = self.answer_logps(model, part)
            total = preference_loss(logps - reference, lengths, beta=self._beta, loss_type=self._loss_type).sum()
        self._note(self._beta * (logps.detach() - reference))
        return total / whole

    def _note(self, rewards: torch.Tensor) -> None:
        """The implicit rewards of the paper: beta times how far the policy moved on each answer."""
        chosen, rejected = rewards[0::2], rewards[1::2]
        found = self._metrics["train" if self.model.training else "eval"]
        for name, values in (
            ("preference_accuracy", (chosen > rejected).float()),
            ("reward_margin", chosen - rejected),
            ("reward_chosen", chosen),
            ("reward_rejected", rejected),
        ):
            found[name] += values.tolist()


def _unpadded(model: Any, inputs: dict[str, Any], labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    stretches, labels = inputs["segments"].stretches, labels[0]
    trained = (labels != IGNORED).nonzero().squeeze(1)
    logits = model(**inputs, logits_to_keep=trained, use_cache=False).logits[0]
    found = _logps(logits, labels[trained])
    lengths = [int((labels[start:end] != IGNORED).sum()) for start, end in stretches]
    sums = torch.stack([part.sum() for part in found.split(lengths)])
    return sums, torch.tensor(lengths, device=sums.device)


def _padded(model: Any, inputs: dict[str, Any], labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logits, labels = model(**inputs, use_cache=False).logits[:, :-1], labels[:, 1:]
    trained = labels != IGNORED
    found = _logps(logits, labels.masked_fill(~trained, 0))
    return (found * trained).sum(dim=1), trained.sum(dim=1)


def _logps(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The log-probability of each token, fp32, without a second copy of the logits that backward would keep."""
    logits = logits.float()
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - logits.logsumexp(dim=-1)
