"""The tokenizer of a prepared base model, loaded without the libraries that compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from optimize_child.failures import JobFailure
from optimize_child.rendering.template import ChatTemplate, TemplateRefused


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a prepared base model."""
    require_model(folder)
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def load_template(base_model: dict[str, Any], tokenizer: Any) -> ChatTemplate:
    """The chat template under which a plan's base model renders.

    Raises JobFailure where there is none, or another one than when the folder was prepared.
    """
    try:
        template = ChatTemplate(tokenizer)
    except TemplateRefused as error:
        raise JobFailure("base_model_refused", str(error), hint="Choose a chat model.") from error
    stated = base_model.get("chat_template_sha256")
    if stated and stated != template.sha256:
        raise JobFailure(
            "base_model_refused",
            f"The base model's chat template is {template.sha256[:12]} and {stated[:12]} was expected.",
            hint="Select the base model again.",
        )
    return template


def require_model(folder: Path) -> None:
    """Raise JobFailure unless the folder is a prepared base model's."""
    if not (folder / "config.json").is_file():
        raise JobFailure(
            "base_model_missing",
            f"The base model's folder {folder} holds no model.",
            hint="Select the base model again; it is prepared anew.",
        )
