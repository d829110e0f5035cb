"""Starting from a snapshot of another run: its weights alone, or its training state under a schedule of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainerControl, TrainerState

from optimize_child.failures import JobFailure
from optimize_child.saves import snapshots

WEIGHTS, TRAINING_STATE = "weights", "trainingState"
SAME_DATA = ("sequences", "rows", "per_update", "dataset")


def load_adapter(folder: Path, model: Any) -> str | None:
    """Put a folder's weights into the model's adapter. Gives None, or where they are not its shape, and loads none."""
    weights = load_file(folder / "adapter_model.safetensors")
    ours = {name: tuple(tensor.shape) for name, tensor in get_peft_model_state_dict(model).items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if ours != theirs:
        name = next(name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name))
        return f"{name} is {theirs.get(name)} there and {ours.get(name)} here"
    set_peft_model_state_dict(model, weights)
    return None


class Source:
    """The snapshot that a branch starts from, as its plan names it."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.folder = Path(start["folder"])
        self.mode = start["mode"]
        self._digests = {WEIGHTS: start["manifest_sha256"], TRAINING_STATE: start.get("state_manifest_sha256")}

    def verify(self) -> None:
        """What the branch reads is what was committed. Raises JobFailure `snapshot_invalid`."""
        for kind in (WEIGHTS, TRAINING_STATE) if self.mode == TRAINING_STATE else (WEIGHTS,):
            snapshots.verify_kind(self.folder, kind, manifest_sha256=self._digests[kind])

    @property
    def offset(self) -> int:
        """Updates of the data that lie behind a branch which keeps its source's place in it."""
        if self.mode == WEIGHTS:
            return 0
        position = self._position()
        return int(position["offset"]) + int(position["step"])

    def check_data(self, now: dict[str, Any]) -> None:
        """A place in the data means something in the same data only. Raises JobFailure `snapshot_invalid`."""
        if self.mode == WEIGHTS:
            return
        position = self._position()
        different = [name for name in SAME_DATA if position[name] != now[name]]
        if different:
            raise JobFailure(
                "snapshot_invalid",
                f"The snapshot {self.folder.name} was made over other data: {different[0]} was "
                f"{position[different[0]]} and is {now[different[0]]}.",
                hint="Branch with --restore weights.",
            )

    def load_weights(self, model: Any) -> None:
        """Put the snapshot's weights into the adapter. Raises JobFailure where they are not its shape."""
        misfit = load_adapter(self.folder, model)
        if misfit:
            raise self._misfit(misfit)

    def load_state(self, optimizer: torch.optim.Optimizer, *, learning_rate: float) -> None:
        """The optimizer goes on with its averages, at the branch's own learning rate."""
        optimizer.load_state_dict(torch.load(self.folder / "optimizer.pt", weights_only=True))
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] = learning_rate

    def _position(self) -> dict[str, Any]:
        position: dict[str, Any] = json.loads((self.folder / "position.json").read_bytes())
        return {"offset": 0} | position

    def _misfit(self, what: str) -> JobFailure:
        return JobFailure(
            "snapshot_invalid",
            f"The adapter of the snapshot {self.folder.name} does not fit this run's: {what}.",
            hint="A branch keeps its source's lora.rank, alpha and target modules.",
        )


class RestoreGenerators(TrainerCallback):
    """Put the source's random-number generators in place before the branch's first update."""

    def __init__(self, trainer: Any, folder: Path) -> None:
        self.trainer = trainer
        self.folder = folder

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.trainer._load_rng_state(str(self.folder))
