"""Images beside a record's messages, put where its texts say `<image>`; other media have no place in a row."""

from collections.abc import Iterator
from typing import Any

from datasets.importers.records import IMAGES, MEDIA, Record, RecordRefused, Row

PLACE = "<image>"


def with_images(record: Record, messages: list[Any]) -> list[Any]:
    """The messages with the record's images as parts of what the user says. Raises RecordRefused."""
    for name in MEDIA:
        if name not in IMAGES and record.fields.get(name):
            raise RecordRefused(name, "media_unknown", f"The record has {name}; a row holds texts and images.")
    paths = [path for name in IMAGES for path in _paths(name, record.fields.get(name))]
    if not paths:
        return messages
    places = sum(_places(message) for message in messages)
    if places != len(paths):
        raise RecordRefused("images", "images_misplaced", f"The record has {len(paths)} images, and its user messages "
                            f"have {places} places for them.", f"Write {PLACE} where each image stands.")
    record.change("images_placed")
    following = iter(paths)
    return [message | {"content": list(_parts(message["content"], following))} if _places(message) else message
            for message in messages]


def _paths(name: str, value: Any) -> Iterator[str]:
    for image in value if isinstance(value, list) else [value] if value else []:
        path = image.get("path") if isinstance(image, dict) and not image.get("bytes") else image
        if not isinstance(path, str) or not path:
            raise RecordRefused(name, "image_embedded", "The record holds an image itself, not the path of its file.",
                                "Write the images to files beside the rows, and their paths into the records.")
        yield path


def _places(message: Any) -> int:
    """How many images a message has room for."""
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
    if isinstance(content, str):
        return content.count(PLACE)
    return sum(map(_is_place, content)) if isinstance(content, list) else 0


def _is_place(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image" and not part.get("path")


def _parts(content: Any, paths: Iterator[str]) -> Iterator[Row]:
    if isinstance(content, str):
        first, *others = content.split(PLACE)
        yield from _text(first)
        for text in others:
            yield {"type": "image", "path": next(paths)}
            yield from _text(text)
    else:
        for part in content:
            yield {"type": "image", "path": next(paths)} if _is_place(part) else part


def _text(text: str) -> Iterator[Row]:
    if text:
        yield {"type": "text", "text": text}
