"""What a person writes with TRL alone, at TRL's defaults: the denominator of the training bars."""

import json
import sys
import tempfile
from pathlib import Path

import gate
import plain_trl
import torch


def main(settings: dict) -> None:
    torch.set_num_threads(settings["threads"])
    trainer = plain_trl.make_trainer(
        Path(settings["base"]),
        [Path(settings["rows"])],
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
