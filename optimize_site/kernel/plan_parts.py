"""The parts that plans of different jobs share, from plain values. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


def base_model_part(*, folder: str, revision: str, repository: str, chat_template_sha256: str,
                    rules: Sequence[str] = ()) -> dict[str, Any]:
    """The prepared base model of a plan, and what the catalog says of its family."""
    return {"folder": folder, "revision": revision, "repository": repository,
            "chat_template_sha256": chat_template_sha256 or None, "rules": list(rules)}


def rows_part(files: Sequence[str], *, content_hash: str, num_examples: int, name: str, format: str = "chat-jsonl-v1",
              images: Mapping[str, str] | None = None, prepared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A dataset of a plan: its files in order, the form its rows have, where the images lie that rows name, and what
    prepared rows were made with and what their files are called."""
    part = {"files": list(files), "content_hash": content_hash, "num_examples": num_examples, "name": name,
            "format": format}
    return part | ({"images": dict(images)} if images else {}) | ({"prepared": dict(prepared)} if prepared else {})
