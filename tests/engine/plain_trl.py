"""What a person would write with TRL alone: the yardstick for our losses, and for our speed in `bench`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.masks import Policy
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.tokenizer import load_tokenizer
from optimize_child.training.order import epoch_order
from peft import LoraConfig
from torch.utils.data import SequentialSampler
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

from datasets import Dataset


class InOrder(SFTTrainer):
    """TRL's trainer that reads its rows as they stand, and draws nothing for reading them."""

    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(self.train_dataset if dataset is None else dataset)

    def get_train_dataloader(self):
        loader = super().get_train_dataloader()
        loader.base_dataloader.generator = torch.Generator()
        return loader


def make_trainer(
    base: Path, files: list[Path], *, seed: int, lora: dict[str, Any], callbacks: Sequence[Any] = (), **settings: Any
) -> InOrder:
    """TRL's trainer over the rows in our order, at TRL's defaults where `settings` says nothing else."""
    tokenizer = load_tokenizer(base)
    rows = read_tokens(files, ChatTemplate(tokenizer), Reading(Policy(), 10**6, "error"), lambda _done: None)
    order = epoch_order(len(rows), seed=seed, epoch=0, shuffle=True)
    pairs = [rows.row(index) for index in order]
    return InOrder(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        args=SFTConfig(
            seed=seed,
            use_cpu=True,
            bf16=False,
            shuffle_dataset=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **settings,
        ),
        train_dataset=Dataset.from_dict({"input_ids": [i for i, _ in pairs], "labels": [label for _, label in pairs]}),
        processing_class=tokenizer,
        peft_config=LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", **lora),
        callbacks=list(callbacks),
    )


def train(base: Path, files: list[Path], output: Path, config: dict[str, Any]) -> tuple[list[dict], dict]:
    """One epoch over the same rows in the same order: the logged figures of each update, and the adapter."""
    hyper = config["hyperparams"]
    lora, optimizer, training = hyper["lora"], hyper["optimizer"], hyper["training"]
    trainer = make_trainer(
        base,
        files,
        seed=training["seed"],
        lora={"r": lora["rank"], "lora_alpha": lora["alpha"], "lora_dropout": lora["dropout"]},
        output_dir=str(output),
        per_device_train_batch_size=training["microBatchPerGpu"],
        gradient_accumulation_steps=training["gradientAccumulation"],
        num_train_epochs=1,
        learning_rate=optimizer["learningRate"],
        weight_decay=optimizer["weightDecay"],
        max_grad_norm=optimizer["maxGradNorm"],
        lr_scheduler_type="linear",
        gradient_checkpointing=False,
        max_length=None,
    )
    trainer.train()
    weights = {name: value.detach().clone() for name, value in trainer.model.named_parameters() if value.requires_grad}
    return [entry for entry in trainer.state.log_history if "loss" in entry], weights
