"""What a person would write with TRL alone: the yardstick for our losses."""

from pathlib import Path
from typing import Any

import torch
from optimize_child.masks import Policy
from optimize_child.order import epoch_order
from optimize_child.template import ChatTemplate
from optimize_child.tokenizer import load_tokenizer
from optimize_child.tokens import Reading, read_tokens
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


def train(base: Path, files: list[Path], output: Path, config: dict[str, Any]) -> tuple[list[dict], dict]:
    """One epoch over the same rows in the same order: the logged figures of each update, and the adapter."""
    hyper = config["hyperparams"]
    lora, optimizer, training = hyper["lora"], hyper["optimizer"], hyper["training"]
    tokenizer = load_tokenizer(base)
    rows = read_tokens(files, ChatTemplate(tokenizer), Reading(Policy(), 10**6, "error"), lambda _done: None)
    order = epoch_order(len(rows), seed=training["seed"], epoch=0, shuffle=True)
    pairs = [rows.row(index) for index in order]
    trainer = InOrder(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        args=SFTConfig(
            output_dir=str(output),
            per_device_train_batch_size=training["microBatchPerGpu"],
            gradient_accumulation_steps=training["gradientAccumulation"],
            num_train_epochs=1,
            learning_rate=optimizer["learningRate"],
            weight_decay=optimizer["weightDecay"],
            max_grad_norm=optimizer["maxGradNorm"],
            lr_scheduler_type="linear",
            seed=training["seed"],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            max_length=None,
            shuffle_dataset=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"input_ids": [i for i, _ in pairs], "labels": [label for _, label in pairs]}),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            task_type="CAUSAL_LM",
            r=lora["rank"],
            lora_alpha=lora["alpha"],
            lora_dropout=lora["dropout"],
            target_modules="all-linear",
        ),
    )
    trainer.train()
    weights = {name: value.detach().clone() for name, value in trainer.model.named_parameters() if value.requires_grad}
    return [entry for entry in trainer.state.log_history if "loss" in entry], weights
