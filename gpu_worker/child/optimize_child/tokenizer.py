"""The tokenizer of a prepared base model, loaded without the libraries that compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from optimize_child.failures import JobFailure


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a prepared base model."""
    require_model(folder)
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def require_model(folder: Path) -> None:
    """Raise JobFailure unless the folder is a prepared base model's."""
    if not (folder / "config.json").is_file():
        raise JobFailure(
            "base_model_missing",
            f"The base model's folder {folder} holds no model.",
            hint="Select the base model again; it is prepared anew.",
        )
