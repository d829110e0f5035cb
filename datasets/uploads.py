"""A request's body as a stream, so that an upload never lies in memory whole."""

import json
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest

from datasets.errors import LineageInvalid
from datasets.operations import check_lineage

CHUNK = 1 << 20


def body_chunks(request: HttpRequest) -> Iterator[bytes]:
    """The body, a mebibyte at a time."""
    while chunk := request.read(CHUNK):
        yield chunk


def body_length(request: HttpRequest) -> int | None:
    """How long the sender says the body is."""
    stated = request.headers.get("Content-Length", "")
    return int(stated) if stated.isdigit() else None


def stated_lineage(text: str) -> dict[str, Any] | None:
    """The lineage a request states as JSON. Raises LineageInvalid."""
    if not text:
        return None
    try:
        return check_lineage(json.loads(text))
    except ValueError as error:
        raise LineageInvalid("The lineage is not JSON.", hint="Send one JSON object.") from error
