"""The trainer of GRPO and GSPO over our updates: each update rolls out its prompts, and learns from them once.

What was sampled is what is learned from, and by the weights that sampled it: every ratio is one, and no
log-probability is computed a second time. Where another engine sampled, a completion is weighed by how far the two
engines are apart about it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from trl.trainer.utils import add_fused_lm_head

from optimize_child.engine_runtime import AFTER_ROLLOUT
from optimize_child.reinforcement.gap import EngineGap
from optimize_child.reinforcement.layout import GroupLayout
from optimize_child.reinforcement.loss import Objective, token_losses, token_weights
from optimize_child.reinforcement.prompts import Prompts
from optimize_child.reinforcement.reward_failures import RewardFailures
from optimize_child.reinforcement.rolling import Rolled, Roller, evaluating
from optimize_child.reinforcement.rollouts import groups_of, write_rollouts
from optimize_child.reinforcement.start import Reference
from optimize_child.training import reference_check
from optimize_child.training.trainer import SupervisedTrainer

INPUTS = ("input_ids", "position_ids", "attention_mask", "segments", "labels", "shift_labels")


class PolicyTrainer(SupervisedTrainer):
    """The trainer of supervised runs whose batches are prompts."""

    def __init__(
        self,
        *,
        prompts: Prompts,
        roller: Roller,
        failures: RewardFailures,
        objective: Objective,
        group_layout: GroupLayout,
        **supervised: Any,
    ) -> None:
        self._prompts = prompts
        self._roller = roller
        self._failures = failures
        self._objective = objective
        self._group_layout = group_layout
        self.reference = Reference()
        self._is_checked = False
        super().__init__(**supervised)
        temperature = roller.manner.temperature or 1.0
        add_fused_lm_head(self.model.get_base_model(), temperature=temperature, outputs=("log_probs", "entropy"))

    def _lay_out(self, sequences: list[Sequence[int]]) -> dict[str, Any]:
        return {"prompts": [row for sequence in sequences for row in sequence]}

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """One update's gradient: roll out, keep what was rolled out, and learn from it."""
        rolled = self.roll_out(inputs["prompts"])
        began = time.perf_counter()
        loss, figures = self.learn(model, rolled)
        self._note({**rolled.figures, **figures, "update_seconds": time.perf_counter() - began})
        return loss

    def roll_out(self, rows: Sequence[int]) -> Rolled:
        """The update's rollouts, written down and told of. Raises JobFailure where the reward failed too long."""
        step = self.state.global_step
        prompts = [self._prompts.prompt(row) for row in rows]
        rolled = self._roller.roll_out(self.model, prompts, self._updates.offset + step, update=step + 1)
        file = write_rollouts(self._attempt, step + 1, rolled.rollouts)
        self._events.emit("rollouts", step=step + 1, file=file, count=len(rolled.rollouts), sync=True)
        self._runtime.moment(AFTER_ROLLOUT)
        self._failures.watch(step + 1, [rollout.reward for rollout in rolled.rollouts])
        return rolled

    def learn(self, model: Any, rolled: Rolled) -> tuple[torch.Tensor, dict[str, float]]:
        """Add the gradient of an update over these rollouts; gives its loss and figures."""
        model.train()
        rollouts = rolled.rollouts
        tokens = sum(len(rollout.tokens) for rollout in rollouts)
        self._trained_of_update = tokens
        groups = groups_of(rollouts, self._roller.manner.group_size)
        self._tokens_of_update = tokens + sum(len(group.prompt) for group in groups)
        advantages = torch.tensor([rollout.advantage for rollout in rollouts], device=self.args.device)
        total, sums = torch.zeros((), device=self.args.device), defaultdict(float)
        found: list[torch.Tensor] = []
        gap = EngineGap(rollouts, rolled.logps) if self._roller.sampler.corrected else None
        for part in self._group_layout.passes(groups):
            teaches = self._teaches(part, advantages)
            with torch.set_grad_enabled(teaches):
                logps, entropy = self.completion_logps(model, part)
                loss = self._part_loss(logps, part, advantages, (tokens, len(rollouts)), sums, gap)
            sums["entropy"] += float(entropy.detach().sum())
            found.append(logps.detach())
            if teaches:
                self.accelerator.backward(loss)
            total += loss.detach()
        _without_gradient_is_zero(self.model)
        figures = {name: value / tokens for name, value in sums.items()}
        if gap is None:
            self._check_sampled(rolled, found)
            return total, figures
        return total, {**figures, **self._checked_gap(gap)}

    def _teaches(self, part: dict[str, Any], advantages: torch.Tensor) -> bool:
        """Whether a pass has a gradient. Completions that score alike have advantages of zero, and with no penalty
        either the way back would add zeros: they only go forward, for their figures."""
        own = advantages[part["first"] : part["first"] + len(part["lengths"])]
        return self._objective.beta > 0 or bool(own.any())

    def _checked_gap(self, gap: EngineGap) -> dict[str, float]:
        """The gap's figures. It is held to its bound at every update: an engine that was handed another adapter shows
        from the second on."""
        figures = gap.figures()
        if figures:
            step = self.state.global_step + 1
            reference_check.check_engine(
                self._events, self.args.device.type, figures["sampler_gap"], step, tell=not self._is_checked
            )
            self._is_checked = True
        return figures

    def _check_sampled(self, rolled: Rolled, found: list[torch.Tensor]) -> None:
        """Once, at the first update that this attempt makes."""
        if rolled.logps is not None and not self._is_checked:
            sampled = torch.tensor(rolled.logps, device=self.args.device)
            reference_check.check_sampled(self._events, self.args.device.type, sampled, torch.cat(found))
        self._is_checked = True

    def _part_loss(
        self,
        logps: torch.Tensor,
        part: dict[str, Any],
        advantages: torch.Tensor,
        whole: tuple[int, int],
        sums: Any,
        gap: EngineGap | None,
    ) -> torch.Tensor:
        """A pass's share of the loss; what it says of its tokens goes into `sums`. `whole` is the update's number of
        tokens and of completions, `gap` what weighs them where another engine sampled."""
        objective, lengths = self._objective, part["lengths"].to(self.args.device)
        reference = self._reference_logps(part) if objective.beta else None
        own = advantages[part["first"] : part["first"] + len(lengths)]
        losses = token_losses(logps, logps.detach(), reference, own, lengths, objective)
        weights = token_weights(lengths, objective.level, tokens=whole[0], completions=whole[1])
        each = losses.surrogate if gap is None else losses.surrogate * gap.weights(logps, part)
        if losses.kl is not None:
            each = each + objective.beta * losses.kl
            sums["kl"] += float(losses.kl.detach().sum())
        sums["clip_low"] += float(losses.low.sum())
        sums["clip_high"] += float(losses.high.sum())
        return (weights * each).sum()

    def completion_logps(self, model: Any, part: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-probability of each token of a pass's completions, and the entropy it was drawn at, end to end;
        both at the temperature that completions are sampled with."""
        inputs = self._prepare_inputs({name: part[name] for name in INPUTS if name in part})
        with self.compute_loss_context_manager(), self._head():
            found = model(**inputs, fused_lm_head=True)
        return found.log_probs[found.label_mask], found.entropy[found.label_mask]

    def _reference_logps(self, part: dict[str, Any]) -> torch.Tensor:
        with evaluating(self.model), torch.no_grad(), self.reference.in_place(self.model):
            return self.completion_logps(self.model, part)[0]

    def mean_loss(self, passes: Sequence[dict[str, Any]]) -> float:
        """How unlikely some completions are, a token: the mean of their negative log-probabilities."""
        with evaluating(self.model), torch.no_grad():
            logps = torch.cat([self.completion_logps(self.model, part)[0] for part in passes])
            return -float(logps.mean())

    def _note(self, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self._metrics["train"][name] = [value]


def _without_gradient_is_zero(model: Any) -> None:
    """An update in which no pass had a gradient is a step of the optimizer too: its moments go on, its decay holds."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
