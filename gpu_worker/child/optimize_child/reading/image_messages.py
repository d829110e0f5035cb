"""The images that a row names, and its messages as an image-text template reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from optimize_child.reading.rows import messages_of


def image_paths(row: dict[str, Any]) -> list[str]:
    """The paths of a row's images, in the order the row shows them."""
    return [part["path"] for message in row["messages"] for part in _parts(message) if part["type"] == "image"]


def messages_with_images(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A good row's messages the way an image-text template reads them: images as parts, other contents as texts."""
    pairs = zip(row["messages"], messages_of(row), strict=True)
    return [{**plain, "content": list(_shown(message))} if _holds_image(message) else plain for message, plain in pairs]


def _holds_image(message: dict[str, Any]) -> bool:
    return any(part["type"] == "image" for part in _parts(message))


def _shown(message: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The parts of a content without what only the dataset needs: a template might write a path."""
    return ({"type": "image"} if part["type"] == "image" else part for part in _parts(message))


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []
