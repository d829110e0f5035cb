"""What a person would write with TRL's own trainer of rewarded completions: the yardstick for our updates."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from optimize_child.rendering.tokenizer import load_tokenizer
from peft import LoraConfig, set_peft_model_state_dict
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from datasets import Dataset

# GSPO as TRL's notes on the paper set it up.
GSPO = {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4}


def make_trainer(
    base: Path,
    prompts: list[list[dict[str, Any]]],
    reward: Callable[..., list[float | None]],
    *,
    lora: dict[str, Any],
    kind: type[GRPOTrainer] = GRPOTrainer,
    callbacks: Sequence[Any] = (),
    **settings: Any,
) -> GRPOTrainer:
    """TRL's trainer over the prompts as they stand, at TRL's defaults where `settings` says nothing else."""
    return kind(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        reward_funcs=reward,
        args=GRPOConfig(
            use_cpu=True,
            bf16=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            shuffle_dataset=False,
            **settings,
        ),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
        processing_class=load_tokenizer(base),
        peft_config=LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", **lora),
        callbacks=list(callbacks),
    )


class Update:
    """One of our updates: the adapter before it, its prompts' tokens, its completions with scores and advantages."""

    def __init__(self, weights: dict[str, torch.Tensor], rollouts: Sequence[Any]) -> None:
        self.weights = weights
        self.messages = [rollout.prompt.messages for rollout in rollouts if rollout.index == 0]
        self.prompts = [rollout.prompt.tokens for rollout in rollouts]
        self.completions = [rollout.tokens for rollout in rollouts]
        self.scores = [rollout.reward.total for rollout in rollouts]
        self.advantages = [rollout.advantage for rollout in rollouts]


def replayed(base: Path, updates: list[Update], output: Path, config: dict[str, Any]) -> list[dict[str, Any]]:
    """What TRL logs of the same updates, and under `advantages` what it weighs completions by: each update from our
    adapter, over our completions and their scores."""
    rl = config["rlHyperparams"]
    coming, advantages = iter(updates), []

    class Replay(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *_: Any, **__: Any):
            self.update = next(coming)
            assert prompt_ids == self.update.prompts
            return self.update.completions, None

        def _generate_and_score_completions(self, inputs):
            found = super()._generate_and_score_completions(inputs)
            advantages.append(found["advantages"].tolist())
            return found

    class OurWeights(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **_: Any) -> None:
            set_peft_model_state_dict(model, updates[state.global_step].weights)

    def scores(**_: Any) -> list[float | None]:
        return trainer.update.scores

    trainer = make_trainer(
        base,
        [messages for update in updates for messages in update.messages],
        scores,
        kind=Replay,
        lora={"r": rl["lora"]["rank"], "lora_alpha": rl["lora"]["alpha"]},
        callbacks=[OurWeights()],
        output_dir=str(output),
        num_generations=rl["groupSize"],
        per_device_train_batch_size=rl["groupSize"] * rl["promptsPerStep"],
        max_steps=len(updates),
        max_completion_length=rl["maxCompletionLength"],
        beta=rl["klBeta"],
        temperature=rl["temperature"],
        learning_rate=rl["optimizer"]["learningRate"],
        max_grad_norm=rl["optimizer"]["maxGradNorm"],
        gradient_checkpointing=False,
        **(GSPO if config["method"] == "gspo" else {}),
    )
    for parameter in trainer.model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    return [{**entry, "advantages": found} for entry, found in zip(logged, advantages, strict=True)]


class Alone:
    """One process, as far as TRL's loss asks about the others."""

    num_processes = 1

    def gather(self, value: torch.Tensor) -> torch.Tensor:
        return value

    def reduce(self, value: torch.Tensor, reduction: str) -> torch.Tensor:
        return value


def loss_of(
    logps: torch.Tensor, old: torch.Tensor, reference: torch.Tensor, advantages: torch.Tensor, lengths: list[int],
    *, method: str, beta: float,
) -> torch.Tensor:  # fmt: skip
    """TRL's own loss of some completions, `lengths` tokens each and end to end, under weights that may have moved since
    they were sampled; at TRL's defaults for the method."""
    args = GRPOConfig(output_dir="nowhere", use_cpu=True, bf16=False, beta=beta, **(GSPO if method == "gspo" else {}))

    def padded(values: torch.Tensor) -> torch.Tensor:
        return pad_sequence(list(values.split(lengths)), batch_first=True)

    mask, nothing = padded(torch.ones_like(old)), torch.zeros(len(lengths), 0, dtype=torch.long)
    trainer = SimpleNamespace(
        args=args, beta=beta, loss_type=args.loss_type, importance_sampling_level=args.importance_sampling_level,
        epsilon_low=args.epsilon, epsilon_high=args.epsilon_high or args.epsilon, top_entropy_quantile=1.0,
        off_policy_mask_threshold=None, aux_loss_enabled=False, use_vllm=False, _entropy_bonus_enabled=False,
        current_gradient_accumulation_steps=1, model=SimpleNamespace(training=False), accelerator=Alone(),
        _metrics={"eval": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (padded(logps), torch.zeros_like(mask), None),
    )  # fmt: skip
    return GRPOTrainer._compute_loss(trainer, None, {
        "prompt_ids": nothing, "prompt_mask": nothing, "completion_ids": mask.long(), "completion_mask": mask,
        "advantages": advantages, "old_per_token_logps": padded(old), "ref_per_token_logps": padded(reference),
        "num_items_in_batch": mask.sum(),
    })  # fmt: skip
