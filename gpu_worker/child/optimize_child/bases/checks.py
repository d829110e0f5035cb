"""What a prepared folder must be before anything trains on it: no code, no pickle, and what the catalog says it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, GenerationConfig

from optimize_child.bases.models import model_class
from optimize_child.bases.sources import model_files
from optimize_child.failures import JobFailure
from optimize_child.rendering.corrections import correct_template
from optimize_child.rendering.template import ChatTemplate, TemplateRefused, template_sha256
from optimize_child.rendering.tokenizer import load_tokenizer

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


def refuse_code_and_pickles(folder: Path) -> None:
    """Nothing that would run code by being loaded: no `auto_map`, no pickled weights, and weights as safetensors."""
    for name in ("config.json", "tokenizer_config.json", "processor_config.json"):
        path = folder / name
        if path.is_file() and "auto_map" in _json(path):
            raise JobFailure(
                "base_model_refused",
                f"{name} carries auto_map, which loads code from the repository.",
                hint="Choose a model whose architecture the library knows by itself.",
            )
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        raise JobFailure(
            "base_model_refused",
            f"The folder holds {', '.join(pickles)}: a pickle can run code when it is loaded.",
            hint="Keep the safetensors weights and remove the pickled files.",
        )
    if not any(path.suffix == ".safetensors" for path in model_files(folder)):
        raise JobFailure("base_model_refused", "The folder holds no safetensors weights.", hint="Convert the weights.")


def _json(path: Path) -> dict[str, Any]:
    try:
        body: dict[str, Any] = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        raise JobFailure(
            "base_model_refused", f"{path.name} is not valid JSON: {error}", hint="Fetch it anew."
        ) from error
    return body


def examine(folder: Path, catalog: dict[str, Any]) -> dict[str, Any]:
    """The facts of a prepared folder. Raises JobFailure where they disagree with the catalog or among themselves."""
    refuse_code_and_pickles(folder)
    tokenizer = load_tokenizer(folder)
    _compare_template(tokenizer, catalog)
    correction = correct_template(folder, tokenizer, catalog.get("chat_template_correction"))
    template = _usable_template(tokenizer)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    special = {kind: getattr(tokenizer, f"{kind}_token") for kind in ("bos", "eos", "pad", "unk")}
    _compare_tokens(special, catalog.get("special_tokens") or {})
    _compare_ends(folder, tokenizer, config)
    text = config.get_text_config()
    model = _skeleton(config)
    return {
        "parameters": model.num_parameters(),
        "context_length": getattr(text, "max_position_embeddings", None),
        "vocab_size": text.vocab_size,
        "chat_template_sha256": template.sha256,
        "chat_template_correction": correction,
        "special_tokens": special,
        "architecture": type(model).__name__,
        "model_type": config.model_type,
    }


def _usable_template(tokenizer: Any) -> ChatTemplate:
    try:
        template = ChatTemplate(tokenizer)
        template.render([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    except TemplateRefused as error:
        raise JobFailure(
            "base_model_refused", f"The chat template cannot be used: {error}", hint="Choose a chat model."
        ) from error
    return template


def _compare_template(tokenizer: Any, catalog: dict[str, Any]) -> None:
    """The catalog states the digest of the template as it is shipped."""
    stated = catalog.get("chat_template_sha256")
    found = template_sha256(tokenizer.get_chat_template()) if tokenizer.chat_template else None
    if stated and found and stated != found:
        raise JobFailure(
            "base_model_refused",
            f"The chat template has the digest {found[:12]} and the catalog states {stated[:12]}.",
            hint="The model is not the one the catalog describes; correct the entry or its revision.",
            found=found,
            stated=stated,
        )


def _compare_tokens(found: dict[str, str | None], stated: dict[str, str]) -> None:
    different = [kind for kind, token in stated.items() if token and found.get(kind) != token]
    if different:
        named = ", ".join(f"{kind} is {found.get(kind)!r}, not {stated[kind]!r}" for kind in different)
        raise JobFailure(
            "base_model_refused",
            f"The tokenizer disagrees with the catalog: {named}.",
            hint="The model is not the one the catalog describes; correct the entry or its revision.",
        )


def _compare_ends(folder: Path, tokenizer: Any, config: Any) -> None:
    """The tokenizer's end token must end an answer for the model too, or answers would never stop."""
    if tokenizer.eos_token_id is None:
        raise JobFailure("base_model_refused", "The tokenizer names no end token.", hint="Choose a chat model.")
    ends = end_tokens(folder, config)
    if ends and tokenizer.eos_token_id not in ends:
        raise JobFailure(
            "base_model_refused",
            f"The tokenizer ends a text with token {tokenizer.eos_token_id} ({tokenizer.eos_token}) and the model's "
            f"configuration with {sorted(ends)}.",
            hint="Correct the folder's generation_config.json or tokenizer_config.json.",
        )


def end_tokens(folder: Path, config: Any) -> set[int]:
    """The tokens at which the model's own files say that generation ends."""
    stated = [getattr(config.get_text_config(), "eos_token_id", None)]
    if (folder / "generation_config.json").is_file():
        stated.append(GenerationConfig.from_pretrained(folder).eos_token_id)
    return {number for value in stated for number in _numbers(value)}


def _numbers(value: Any) -> list[int]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [int(value)]


def _skeleton(config: Any) -> Any:
    """The model without its weights: proof that the library knows the architecture, and the parameter count."""
    try:
        with torch.device("meta"):
            return model_class(config).from_config(config, trust_remote_code=False)
    except (ValueError, KeyError) as error:
        raise JobFailure(
            "base_model_refused",
            f"The library does not know the architecture {config.model_type!r}: {str(error).splitlines()[0]}",
            hint="Choose another base model.",
        ) from error
