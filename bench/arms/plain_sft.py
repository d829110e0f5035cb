"""What a person writes with TRL alone, at TRL's defaults: the denominator of the training bars."""

import json
import sys
import tempfile
from pathlib import Path

import gate
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
    """The rows come in the order of the other arm."""

    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(self.train_dataset if dataset is None else dataset)


def main(settings: dict) -> None:
    torch.set_num_threads(settings["threads"])
    tokenizer = load_tokenizer(Path(settings["base"]))
    reading = Reading(Policy(), 1024, "error")
    rows = read_tokens([Path(settings["rows"])], ChatTemplate(tokenizer), reading, lambda _done: None)
    order = epoch_order(len(rows), seed=42, epoch=0, shuffle=True)
    pairs = [rows.row(index) for index in order]
    trainer = InOrder(
        model=AutoModelForCausalLM.from_pretrained(settings["base"], dtype=torch.float32),
        args=SFTConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=settings["batch"],
            max_steps=settings["steps"],
            learning_rate=2e-5,
            seed=42,
            use_cpu=True,
            bf16=False,
            shuffle_dataset=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"input_ids": [i for i, _ in pairs], "labels": [label for _, label in pairs]}),
        processing_class=tokenizer,
        peft_config=LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules="all-linear"),
        callbacks=[gate.Gate()],
    )
    trainer.train()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
