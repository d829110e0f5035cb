"""A reinforcement run's configuration, in the words that its common part with supervised runs reads."""

from __future__ import annotations

from typing import Any

from optimize_child.training.run_settings import digest_of

# rlHyperparams has no seed of its own; this is the one that supervised runs take by default.
SEED = 42


def as_supervised(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the groups of a supervised one beside its own: an update is one batch of its prompts."""
    rl = config["rlHyperparams"]
    training = {
        "epochs": rl["epochs"],
        "maxSteps": rl["maxSteps"],
        "microBatchPerGpu": rl["promptsPerStep"],
        "gradientAccumulation": 1,
        "validationFrequencySteps": 1,
        "seed": SEED,
    }
    hyper = {name: rl[name] for name in ("lora", "optimizer", "scheduler")}
    data = {"packing": False, "shuffle": True, "truncation": "error"}
    return {**config, "hyperparams": {**hyper, "training": training}, "data": data}


def rl_updates(updates_per_epoch: int, *, epochs: int, max_steps: int | None) -> int:
    """How many updates a run makes: so many as it states, over and over its prompts, or its epochs."""
    return max_steps if max_steps else epochs * updates_per_epoch


def rl_hyperparameters(config: dict[str, Any], lora: dict[str, Any], total_steps: int) -> tuple[dict[str, Any], str]:
    """The hyperparameters a run trains with, by dotted name, and their digest; `lora` is the adapter as it is."""
    values: dict[str, Any] = {"method": config["method"], "maxSeqLength": config["maxSeqLength"], "seed": SEED,
                              "totalSteps": total_steps}  # fmt: skip
    for name, value in {**config["rlHyperparams"], "lora": lora}.items():
        parts = {f"{name}.{field}": part for field, part in value.items()} if isinstance(value, dict) else {name: value}
        values |= parts
    return values, digest_of(values)
