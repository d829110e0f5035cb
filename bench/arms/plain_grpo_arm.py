"""What a person writes with TRL's own trainer of rewards, at its defaults: the denominator of the bar of GRPO."""

import json
import sys
import tempfile
from pathlib import Path

import gate
import plain_grpo
import torch


def main(settings: dict) -> None:
    torch.set_num_threads(settings["threads"])
    rows = [json.loads(line) for line in Path(settings["rows"]).read_text().splitlines()]
    rl = settings["plan"]["config"]["rlHyperparams"]
    trainer = plain_grpo.make_trainer(
        Path(settings["plan"]["base_model"]["folder"]),
        [row["messages"][:-1] for row in rows],
        length,
        lora={"r": rl["lora"]["rank"], "lora_alpha": rl["lora"]["alpha"]},
        callbacks=[gate.Gate()],
        output_dir=tempfile.mkdtemp(),
        num_generations=rl["groupSize"],
        per_device_train_batch_size=rl["groupSize"] * rl["promptsPerStep"],
        max_steps=settings["steps"],
        max_completion_length=rl["maxCompletionLength"],
        generation_kwargs={"min_new_tokens": rl["maxCompletionLength"]},
        beta=rl["klBeta"],
        temperature=rl["temperature"],
        learning_rate=rl["optimizer"]["learningRate"],
        lr_scheduler_type="constant",
    )
    trainer.train()


def length(completions, **_) -> list[float]:
    """How long each text is, in hundreds of characters."""
    return [len(completion[0]["content"]) / 100 for completion in completions]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
