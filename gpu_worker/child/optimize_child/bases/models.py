"""Loading a prepared base model, and the adapter over it: precision, attention, and which modules are adapted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from transformers import (
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.utils import is_bitsandbytes_available

from optimize_child.failures import JobFailure
from optimize_child.rendering.tokenizer import require_model


def load_model(
    folder: Path, *, device: str, precision: str = "BF16", attention: str = "sdpa", threads: int | None = None
) -> PreTrainedModel:
    """The base model on its device, ready to compute.

    The weights are stored as bf16. A GPU computes in bf16; a CPU computes the same weights in fp32, several times
    faster there. INT4 is a 4-bit (nf4) quantization of them, computed in bf16 on a GPU and in fp32 on a CPU.
    """
    require_model(folder)
    if threads is not None:
        torch.set_num_threads(threads)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    loader = model_class(AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
    model: PreTrainedModel = loader.from_pretrained(
        folder,
        dtype=dtype,
        attn_implementation=attention,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        **_quantized(precision, dtype, device),
    )
    model.config.use_cache = False
    return model if precision == "INT4" else model.to(device)


def model_class(config: PretrainedConfig) -> Any:
    """What loads a model of this configuration: with its towers where it reads images, else the language model."""
    reads_images = type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    return AutoModelForImageTextToText if reads_images else AutoModelForCausalLM


def _quantized(precision: str, dtype: torch.dtype, device: str) -> dict[str, Any]:
    if precision != "INT4":
        return {}
    if not is_bitsandbytes_available():
        raise JobFailure(
            "unsupported_setting",
            "model.precision INT4 needs bitsandbytes, which this job environment does not have.",
            hint="Set model.precision to BF16, or install bitsandbytes in the job environment.",
        )
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return {"quantization_config": config, "device_map": device}


def backbone_linears(model: PreTrainedModel) -> list[str]:
    """The paths of the linear modules of the language backbone: no output head, no vision or audio tower."""
    inside = _backbone_prefix(model)
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name.startswith(inside) and not _is_tower(name)
    ]


def _backbone_prefix(model: PreTrainedModel) -> str:
    backbone = model.get_decoder()
    for name, module in model.named_modules():
        if module is backbone and name:
            return f"{name}."
    return f"{model.base_model_prefix}."


def _is_tower(name: str) -> bool:
    return any(part.startswith(("vision", "audio", "visual")) for part in name.split("."))


def target_modules(model: PreTrainedModel, pattern: str) -> list[str]:
    """The modules an adapter covers: all of the backbone's linear ones, or those whose whole path the pattern matches.

    Raises JobFailure when the pattern is no expression or matches none.
    """
    linears = backbone_linears(model)
    if pattern == "default":
        return _short_names(linears)
    try:
        matched = [name for name in linears if re.fullmatch(pattern, name)]
    except re.error as error:
        raise _no_modules(pattern, linears, f"is not a regular expression ({error})") from error
    if not matched:
        raise _no_modules(pattern, linears, f"matches none of the model's {len(linears)} linear modules")
    return matched


def _short_names(linears: list[str]) -> list[str]:
    """The modules' last names, the way serving engines read an adapter; `default` covers every one of them."""
    return sorted({name.rsplit(".", 1)[-1] for name in linears})


def _no_modules(pattern: str, linears: list[str], what: str) -> JobFailure:
    examples = ", ".join(linears[:3])
    return JobFailure(
        "no_target_modules",
        f"lora.targetModules {pattern!r} {what}.",
        hint=f"Match whole module paths, such as {examples}; or leave the field out to adapt all of them.",
        examples=linears[:10],
    )


def lora_config(model: PreTrainedModel, lora: dict[str, Any]) -> LoraConfig:
    """The adapter a resolved `lora` group describes, every setting that shapes it stated."""
    names = target_modules(model, lora["targetModules"])
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=lora["rank"],
        lora_alpha=lora["alpha"],
        lora_dropout=lora["dropout"],
        target_modules=names,
        exclude_modules=None if lora["targetModules"] != "default" else _towers_and_head(model),
        bias="none",
        use_rslora=False,
        use_dora=False,
        init_lora_weights=True,
        modules_to_save=None,
    )


def _towers_and_head(model: PreTrainedModel) -> list[str] | None:
    """Modules that carry a backbone module's last name and are not in the backbone."""
    inside = set(backbone_linears(model))
    short = set(_short_names(sorted(inside)))
    outside = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name not in inside and name.rsplit(".", 1)[-1] in short
    ]
    return outside or None
