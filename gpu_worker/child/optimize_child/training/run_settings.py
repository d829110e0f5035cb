"""What a run says before its first update: how its rows fit, and the settings it trains with."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from peft import LoraConfig
from transformers import TrainingArguments

from optimize_child.reading.token_rows import TokenRows
from optimize_child.training.layouts import Layout, Padded
from optimize_child.training.order import Updates

_STATED = (
    "learning_rate",
    "weight_decay",
    "max_grad_norm",
    "optim",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "warmup_steps",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "max_steps",
    "num_train_epochs",
    "seed",
    "data_seed",
    "bf16",
    "use_cpu",
    "gradient_checkpointing",
    "use_liger_kernel",
    "loss_type",
    "label_smoothing_factor",
)


def data_fit(rows: TokenRows) -> dict[str, Any]:
    """How a dataset's rows fit the run: what became of them, and their tokens."""
    lengths = rows.lengths()
    return {
        "rows": len(rows),
        "tooLong": rows.too_long,
        "trimmed": rows.trimmed,
        "turnsRemoved": rows.turns_removed,
        "trainedTokens": rows.trained_tokens(),
        "totalTokens": int(lengths.sum()),
        "longest": int(lengths.max()),
        "masked": rows.masked,
    }


def padding_share(rows: TokenRows, layout: Layout, updates: Updates, micro: int) -> float:
    """The part of the first epoch's computed positions that hold no token."""
    if not isinstance(layout, Padded):
        return 0.0
    lengths, padded = rows.lengths(), 0
    for update in updates:
        for start in range(0, len(update), micro):
            part = lengths[update[start : start + micro]]
            padded += int(part.max()) * len(part)
    return round(1 - int(lengths.sum()) / padded, 4)


def hyperparameters(config: dict[str, Any], total_steps: int) -> tuple[dict[str, Any], str]:
    """The hyperparameters a run trains with, by dotted name, and their digest."""
    values = {
        **{f"{group}.{name}": value for group, part in config["hyperparams"].items() for name, value in part.items()},
        "maxSeqLength": config["maxSeqLength"],
        "totalSteps": total_steps,
        "method": config["method"],
    }
    return values, digest_of(values)


def digest_of(values: dict[str, Any]) -> str:
    """The digest by which two runs' hyperparameters are told alike."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def requested_settings(arguments: TrainingArguments, lora: LoraConfig) -> dict[str, Any]:
    """What TRL and PEFT were given."""
    args = arguments.to_dict()
    stated = {name: args[name] for name in _STATED if name in args}
    given = {key: sorted(value) if isinstance(value, set) else value for key, value in lora.to_dict().items()}
    shape = {key: given[key] for key in ("r", "lora_alpha", "lora_dropout", "target_modules", "bias")}
    document: dict[str, Any] = json.loads(json.dumps({"sft": stated, "lora": shape}, default=str))
    return document
