"""Our job over prompts, held before each update; it may keep what it learned from, for TRL's trainer to replay."""

import json
import sys
from pathlib import Path

import gate
import plain_grpo
import torch
from optimize_child import job, rl
from optimize_child.reinforcement.trainer import PolicyTrainer
from peft import get_peft_model_state_dict


def main(settings: dict) -> None:
    held = gate.Gate()
    train, log = PolicyTrainer.train, PolicyTrainer.log

    def gated_train(self, *args, **kwargs):
        self.add_callback(held)
        return train(self, *args, **kwargs)

    def noted_log(self, logs, *rest):
        held.note(logs)
        return log(self, logs, *rest)

    PolicyTrainer.train, PolicyTrainer.log = gated_train, noted_log
    # No completion ends by itself, so that each has all its tokens.
    rl.stop_ids = lambda *_: frozenset()
    if settings.get("record"):
        record_updates(Path(settings["record"]), settings["recorded"])
    sys.exit(job.main(Path(settings["attempt"])))


def record_updates(path: Path, count: int) -> None:
    """Keep what the first updates learn from; the later ones are measured, and not touched."""
    learn, updates = PolicyTrainer.learn, []

    def recording(self, model, rolled):
        if len(updates) == count:
            return learn(self, model, rolled)
        weights = {name: tensor.detach().clone() for name, tensor in get_peft_model_state_dict(self.model).items()}
        updates.append(vars(plain_grpo.Update(weights, rolled.rollouts)))
        torch.save(updates, path)
        return learn(self, model, rolled)

    PolicyTrainer.learn = recording


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
