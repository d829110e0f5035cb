"""Bytes on their way out, chunk by chunk, under either kind of server."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header


def download(request: HttpRequest, chunks: Iterator[bytes], *, name: str, size: int | None = None,
             content_type: str = "application/octet-stream") -> StreamingHttpResponse:
    """A response that saves as `name`; no more than a chunk of it is ever in memory."""
    # Under ASGI Django would read a plain iterator to its end before sending the first byte.
    body = _awaited(chunks) if isinstance(request, ASGIRequest) else chunks
    response = StreamingHttpResponse(body, content_type=content_type)
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    if size is not None:
        response["Content-Length"] = str(size)
    return response


async def _awaited(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while chunk := await sync_to_async(_next)(chunks):
        yield chunk


def _next(chunks: Iterator[bytes]) -> bytes:
    return next(chunks, b"")
