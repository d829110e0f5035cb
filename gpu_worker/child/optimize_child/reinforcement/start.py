"""The adapter a reinforcement run starts from: a registered one (warm start) or a run's; and what its KL penalty is
measured from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig

from optimize_child.failures import JobFailure
from optimize_child.training.branch import load_adapter

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


class WarmStart:
    """A registered adapter as the plan names it."""

    def __init__(self, part: dict[str, Any]) -> None:
        self.folder = Path(part["folder"])
        self._digests: dict[str, str] = part["sha256"]

    def verify(self) -> None:
        """Its files are what was registered. Raises JobFailure `warm_start_invalid`."""
        for name in (CONFIG, WEIGHTS):
            try:
                with (self.folder / name).open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise _invalid(f"{name} cannot be read ({error})") from error
            if found != self._digests.get(name):
                raise _invalid(f"{name} is not what was registered")

    def load_weights(self, model: Any) -> None:
        """Put its weights into the model's adapter. Raises JobFailure where they are not its shape."""
        misfit = load_adapter(self.folder, model)
        if misfit:
            raise _invalid(f"it does not fit the base model: {misfit}")


def lora_of(folder: Path) -> LoraConfig:
    """The shape of an adapter that is trained further: its rank, alpha, dropout and modules."""
    config = PeftConfig.from_pretrained(str(folder))
    if not isinstance(config, LoraConfig):
        raise _invalid(f"it is no LoRA adapter but {config.peft_type}")
    config.inference_mode = False
    return config


class Reference:
    """The policy that the KL penalty holds to: the base model, or the adapter that the run started from."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] | None = None

    def keep(self, model: torch.nn.Module) -> None:
        """The adapter as it is now is the reference from here on."""
        self._kept = [parameter.detach().clone() for parameter in _trained(model)]

    @property
    def is_adapter(self) -> bool:
        return self._kept is not None

    @contextmanager
    def in_place(self, model: Any) -> Iterator[None]:
        """The model computes as the reference inside."""
        if self._kept is None:
            with model.disable_adapter():
                yield
            return
        self._exchange(model)
        try:
            yield
        finally:
            self._exchange(model)

    def _exchange(self, model: torch.nn.Module) -> None:
        for at, parameter in enumerate(_trained(model)):
            parameter.data, self._kept[at] = self._kept[at], parameter.data


def _trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _invalid(what: str) -> JobFailure:
    return JobFailure(
        "warm_start_invalid",
        f"The adapter that the run starts from cannot be used: {what}.",
        hint="Name another model in warmStartModelId, or train without one.",
    )
