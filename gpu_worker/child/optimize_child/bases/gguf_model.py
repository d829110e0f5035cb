"""A GGUF file as an ordinary folder: weights dequantised to bf16 safetensors, special tokens put right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import gguf as gguf_library
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from optimize_child.failures import JobFailure

KINDS = ("bos", "eos", "pad", "unk")


def convert_gguf(gguf: Path, folder: Path, special: dict[str, str]) -> None:
    """Write the model and its tokenizer into `folder`.

    What a GGUF file says of its special tokens is read wrongly by some versions of transformers (an end token that
    is the start token, no padding token), so the catalog's word is written everywhere: tokenizer, configuration and
    generation settings. Where the catalog is silent, the model's configuration counts.
    """
    with parsed_once():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    stated = {kind: special.get(kind) or _token_of(tokenizer, model.config, kind) for kind in KINDS}
    set_special_tokens(tokenizer, model, stated)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def parsed_once() -> Iterator[None]:
    """Configuration, tokenizer and model each parse the whole file, for seconds; here they share one reading of it."""
    reader, names = gguf_library.GGUFReader, gguf_library.get_tensor_name_map
    gguf_library.GGUFReader = lru_cache(maxsize=1)(reader)
    gguf_library.get_tensor_name_map = lru_cache(maxsize=None)(names)
    try:
        yield
    finally:
        gguf_library.GGUFReader, gguf_library.get_tensor_name_map = reader, names


def _token_of(tokenizer: Any, config: Any, kind: str) -> str | None:
    number = getattr(config, f"{kind}_token_id", None)
    return tokenizer.convert_ids_to_tokens(number) if isinstance(number, int) else None


def set_special_tokens(tokenizer: Any, model: Any, stated: dict[str, str | None]) -> None:
    """One word on each special token, in all three places that later code may ask."""
    vocabulary = tokenizer.get_vocab()
    for kind, token in stated.items():
        if token is None:
            continue
        if token not in vocabulary:
            raise JobFailure(
                "base_model_refused",
                f"The catalog's {kind} token {token!r} is not in the tokenizer's vocabulary.",
                hint="Correct special_tokens in the catalog entry.",
            )
        setattr(tokenizer, f"{kind}_token", token)
    tokenizer.model_max_length = model.config.max_position_embeddings
    numbers = {f"{kind}_token_id": vocabulary[token] for kind in KINDS[:3] if (token := stated[kind])}
    for name, number in numbers.items():
        setattr(model.config, name, number)
    model.generation_config = GenerationConfig(**numbers)
