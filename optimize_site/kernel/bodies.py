"""A request's body as a stream, so that what is sent never lies in memory whole."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest

CHUNK = 1 << 20
BYTES: dict[str, Any] = {"requestBody": {"required": True, "content": {
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}
"""What a route that reads its body as a stream tells of it."""


def body_chunks(request: HttpRequest) -> Iterator[bytes]:
    """The body, a mebibyte at a time."""
    while chunk := request.read(CHUNK):
        yield chunk


def body_length(request: HttpRequest) -> int | None:
    """How long the sender says the body is."""
    stated = request.headers.get("Content-Length", "")
    return int(stated) if stated.isdigit() else None
