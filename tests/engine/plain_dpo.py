"""What a person would write with TRL's own trainer of preference pairs: the yardstick for our losses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from optimize_child.rendering.tokenizer import load_tokenizer
from peft import LoraConfig, set_peft_model_state_dict
from torch.utils.data import SequentialSampler
from transformers import AutoModelForCausalLM, TrainerCallback
from trl import DPOConfig, DPOTrainer

from datasets import Dataset


class InOrder(DPOTrainer):
    """TRL's trainer that reads its pairs as they stand."""

    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(self.train_dataset if dataset is None else dataset)


def make_trainer(
    base: Path,
    rows: list[dict[str, Any]],
    *,
    seed: int,
    lora: dict[str, Any],
    callbacks: Sequence[Any] = (),
    **settings: Any,
) -> InOrder:
    """TRL's trainer over the pairs as they stand, at TRL's defaults where `settings` says nothing else."""
    pairs = [{"prompt": row["prompt"], "chosen": [row["chosen"]], "rejected": [row["rejected"]]} for row in rows]
    return InOrder(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        args=DPOConfig(
            seed=seed,
            use_cpu=True,
            bf16=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **settings,
        ),
        train_dataset=Dataset.from_list(pairs),
        processing_class=load_tokenizer(base),
        peft_config=LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", **lora),
        callbacks=list(callbacks),
    )


def replayed(
    base: Path,
    rows: list[dict[str, Any]],
    weights: list[dict[str, torch.Tensor]],
    output: Path,
    config: dict[str, Any],
) -> list[dict[str, float]]:
    """What TRL logs of the updates over the pairs in their order, each from the adapter that ours began with."""

    class OurWeights(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **_: Any) -> None:
            set_peft_model_state_dict(model, weights[state.global_step])

    hyper, training = config["hyperparams"], config["hyperparams"]["training"]
    trainer = make_trainer(
        base,
        rows,
        seed=training["seed"],
        lora={"r": hyper["lora"]["rank"], "lora_alpha": hyper["lora"]["alpha"]},
        callbacks=[OurWeights()],
        output_dir=str(output),
        beta=config["preference"]["beta"],
        loss_type=[config["preference"]["lossType"]],
        learning_rate=hyper["optimizer"]["learningRate"],
        max_grad_norm=hyper["optimizer"]["maxGradNorm"],
        per_device_train_batch_size=training["microBatchPerGpu"] * training["gradientAccumulation"],
        num_train_epochs=training["epochs"],
        max_length=None,
        gradient_checkpointing=False,
        optim="adamw_torch_fused",
        lr_scheduler_type="linear",
    )
    for parameter in trainer.model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    trainer.train()
    return [entry for entry in trainer.state.log_history if "loss" in entry]
