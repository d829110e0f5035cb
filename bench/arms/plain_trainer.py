"""What a person writes with TRL alone, at TRL's defaults: the denominator of the training bars.

`settings["method"]` is `sft`, over chat rows, or `dpo`, over preference pairs.
"""

import json
import sys
import tempfile
from pathlib import Path

import gate
import torch


def main(settings: dict) -> None:
    torch.set_num_threads(settings["threads"])
    trainer = {"sft": over_rows, "dpo": over_pairs}[settings["method"]](
        Path(settings["base"]),
        Path(settings["rows"]),
        seed=42,
        lora={"r": 8, "lora_alpha": 16},
        callbacks=[gate.Gate()],
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=settings["batch"],
        max_steps=settings["steps"],
        learning_rate=2e-5,
    )
    trainer.train()


def over_rows(base: Path, rows: Path, **settings):
    import plain_trl  # only what the method needs: a script's start is measured too

    return plain_trl.make_trainer(base, [rows], **settings)


def over_pairs(base: Path, rows: Path, **settings):
    import plain_dpo

    return plain_dpo.make_trainer(base, [json.loads(line) for line in rows.read_text().splitlines()], **settings)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
