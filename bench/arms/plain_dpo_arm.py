"""What a person writes with TRL's own trainer of pairs, at its defaults: the denominator of the bar of DPO."""

import json
import sys
import tempfile
from pathlib import Path

import gate
import plain_dpo
import torch


def main(settings: dict) -> None:
    torch.set_num_threads(settings["threads"])
    trainer = plain_dpo.make_trainer(
        Path(settings["base"]),
        [json.loads(line) for line in Path(settings["rows"]).read_text().splitlines()],
        seed=42,
        lora={"r": 8, "lora_alpha": 16},
        callbacks=[gate.Gate()],
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=settings["batch"],
        max_steps=settings["steps"],
        learning_rate=2e-5,
    )
    trainer.train()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
