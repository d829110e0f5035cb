"""What TRL and transformers are told: every setting that a run relies on, stated."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch


def trainer_settings(
    config: dict[str, Any], *, output: Path, total_steps: int, updates_per_epoch: int, device: str
) -> dict[str, Any]:
    """Every setting of TRL and transformers that a run relies on, stated."""
    hyper, cuda = config["hyperparams"], device == "cuda"
    training, optimizer, scheduler = hyper["training"], hyper["optimizer"], hyper["scheduler"]
    return dict(
        output_dir=str(output),
        # One batch is one update, laid out as passes by us; see SupervisedTrainer.
        per_device_train_batch_size=training["microBatchPerGpu"] * training["gradientAccumulation"],
        gradient_accumulation_steps=1,
        average_tokens_across_devices=True,
        max_steps=total_steps,
        num_train_epochs=-(-total_steps // updates_per_epoch),
        learning_rate=optimizer["learningRate"],
        weight_decay=optimizer["weightDecay"],
        max_grad_norm=optimizer["maxGradNorm"],
        optim="adamw_torch_fused",
        adam_beta1=0.9,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        **schedule(scheduler, total_steps),
        seed=training["seed"],
        data_seed=training["seed"],
        use_cpu=not cuda,
        bf16=cuda,
        fp16=False,
        tf32=False if cuda else None,
        gradient_checkpointing=config["model"]["gradientCheckpointing"],
        gradient_checkpointing_kwargs={"use_reentrant": False},
        use_liger_kernel=cuda and liger_usable(),
        loss_type="nll",
        label_smoothing_factor=0.0,
        max_length=None,
        packing=False,
        padding_free=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        assistant_only_loss=False,
        completion_only_loss=False,
        remove_unused_columns=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        shuffle_dataset=False,
        logging_strategy="steps",
        logging_steps=1,
        logging_first_step=False,
        logging_nan_inf_filter=False,
        eval_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        push_to_hub=False,
        ignore_data_skip=False,
        full_determinism=False,
        activation_offloading=False,
    )


def schedule(scheduler: dict[str, Any], total_steps: int) -> dict[str, Any]:
    """The learning rate's course in transformers' words. The rise takes its share of all updates, rounded up."""
    floor = scheduler["minLearningRateRatio"]
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "linear": ("linear", {}),
        "constant": ("constant_with_warmup", {}),
        "cosine": ("cosine_with_min_lr", {"min_lr_rate": floor}) if floor else ("cosine", {}),
    }
    name, extra = kinds[scheduler["kind"]]
    warmup = math.ceil(scheduler["warmupRatio"] * total_steps)
    return {"lr_scheduler_type": name, "lr_scheduler_kwargs": extra, "warmup_steps": warmup}


def liger_usable() -> bool:
    """Whether Liger's layer kernels can run: the package alone says yes without Triton, and fails later."""
    try:
        import liger_kernel.transformers  # noqa: F401
        import triton  # noqa: F401
    except ImportError:
        return False
    return torch.cuda.is_available()
