"""TRL's trainer over the completions and scores of our updates, each from our adapter: tells its losses at once."""

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import gate
import plain_grpo
import torch


def main(settings: dict) -> None:
    torch.set_num_threads(settings["threads"])
    plan = settings["plan"]
    updates = [SimpleNamespace(**update) for update in torch.load(settings["record"])]
    logged = plain_grpo.replayed(
        Path(plan["base_model"]["folder"]), updates, Path(tempfile.mkdtemp()), plan["config"]
    )
    gate.reply(losses=[entry["loss"] for entry in logged])
    gate.await_word()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
