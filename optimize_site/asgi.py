"""The web's entry, which lets no body grow past what any route takes."""

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "optimize_site.settings")

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
FORM_BYTES = 1 << 20


class BoundedBodies:
    """Answers 413 as soon as a request's body is, or says it will be, longer than the box takes.

    Django keeps a whole body on disk before it asks any view, so a limit inside a view would come too late.
    """

    def __init__(self, application: Any, limit: Callable[[], int]):
        self.application, self.limit = application, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
        elif _stated_length(scope) > self.limit():
            await _refuse(send, self.limit())
        else:
            await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen, started = 0, False

        async def counting() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            return {"type": "http.disconnect"} if seen > self.limit() else message

        async def watching(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        await self.application(scope, counting, watching)
        if seen > self.limit() and not started:
            await _refuse(send, self.limit())


def _stated_length(scope: Scope) -> int:
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    return int(stated) if stated.isdigit() else 0


async def _refuse(send: Send, limit: int) -> None:
    from optimize_site.kernel.errors import TooLarge

    error = TooLarge(f"The request is longer than {limit} bytes, the most that this box takes at once.",
                     hint="The limit on a dataset is the setting trainer.datasets.max-bytes.")
    await send({"type": "http.response.start", "status": error.status,
                "headers": [(b"content-type", b"application/problem+json"), (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": json.dumps(error.document()).encode()})


def body_limit() -> int:
    """The longest body of any route: a dataset, with room for a form around it."""
    from optimize_site.kernel.conf import setting

    return int(setting("trainer.datasets.max-bytes")) + FORM_BYTES


application = BoundedBodies(get_asgi_application(), body_limit)
