"""What a save captures at a boundary: copies that training no longer touches, and the files they become."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import save_file

from optimize_child.failures import JobFailure

MOST_NAMED = 20


def adapter_weights(model: PeftModel, *, step: int) -> dict[str, torch.Tensor]:
    """A copy of the adapter's weights in host memory. A number that is none must not become a snapshot."""
    parts = get_peft_model_state_dict(model).items()
    weights = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in parts}
    found = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if found:
        raise not_finite("weights", step, "nan or infinite", found)
    return weights


def adapter_config(model: PeftModel, base_model: dict[str, Any]) -> dict[str, Any]:
    """PEFT's description of the adapter, over the base model by its public name."""
    names = {"base_model_name_or_path": base_model["repository"], "revision": base_model["revision"]}
    config = {**model.peft_config["default"].to_dict(), **names, "inference_mode": True}
    # Sets have no order, and a file that differs from run to run would hide a difference that matters.
    return {key: sorted(value) if isinstance(value, (set, frozenset)) else value for key, value in config.items()}


def write_adapter(weights: dict[str, torch.Tensor], config: dict[str, Any], folder: Path) -> None:
    """The adapter as PEFT stores one; the same weights give the same bytes."""
    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True, default=str))


def copied(state: Any) -> Any:
    """A state in host memory that training no longer touches."""
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(copied(value) for value in state)
    return state


def not_finite(what: str, step: int, value: Any, tensors: Sequence[str] = ()) -> JobFailure:
    """Training has left the numbers: the run ends here, before they reach a model. `tensors` are where they did."""
    where = f" in {tensors[0]}" if tensors else ""
    more = f" and {len(tensors) - 1} other tensors" if len(tensors) > 1 else ""
    return JobFailure(
        f"non_finite_{what}",
        f"The {what} of update {step} {'are' if what == 'weights' else 'is'} not finite ({value}){where}{more}.",
        hint="Lower optimizer.learningRate, raise scheduler.warmupRatio, or look at the rows of this update.",
        step=step,
        **({"tensors": list(tensors[:MOST_NAMED])} if tensors else {}),
    )
