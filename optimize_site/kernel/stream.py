"""Following one thing by server-sent events: the current status first, then what changed, until it is over.

Frames: `status` carries the thing's status document whenever it changed; `event` carries one audit event, with its ID
for `Last-Event-ID`; `end` is the last one. A comment comes every quarter of a minute. Reads run in threads, each with a
connection of its own that is closed again; between changes a follower holds none.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from optimize_site.kernel.bell import bell
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.models import Event

PING_SECONDS = 15.0
BATCH = 500
# Transactions commit out of the order in which they drew their IDs, so a look goes back a little behind the newest.
LOOK_BACK = 200


@dataclass(frozen=True)
class Subject:
    """What is followed: its kind and ID, and how its status is read; `is_over` judges a status."""

    kind: str
    id: str
    status: Callable[[], dict[str, Any]]
    is_over: Callable[[dict[str, Any]], bool]


@dataclass
class Follower:
    """One reader of a subject: what it was sent already."""

    subject: Subject
    after: int
    sent: set[int] = field(default_factory=set)
    status: str = ""
    is_over: bool = False

    def look(self) -> list[str]:
        """The frames since the last look. Reads events after the status, so that none is missed at the end."""
        status = self.subject.status()
        text = json.dumps(status, cls=DjangoJSONEncoder)
        frames = [_frame("status", text)] if text != self.status else []
        self.status = text
        frames += [self._event(event) for event in self._fresh()]
        if self.subject.is_over(status):
            self.is_over = True
            frames.append(_frame("end", json.dumps({"phase": status.get("phase")})))
        return frames

    def _fresh(self) -> list[Event]:
        floor = max(self.after, max(self.sent, default=0) - LOOK_BACK)
        return [event for event in events_after(self.subject, floor) if event.pk not in self.sent]

    def _event(self, event: Event) -> str:
        self.sent.add(event.pk)
        return _frame("event", json.dumps(event_document(event), cls=DjangoJSONEncoder), event.pk)


def events_after(subject: Subject, after: int) -> list[Event]:
    """The subject's events with a higher ID, oldest first."""
    found = Event.objects.filter(subject_kind=subject.kind, subject_id=subject.id, id__gt=after).order_by("id")
    return list(found[:BATCH])


def event_document(event: Event) -> dict[str, Any]:
    """An event as followers read it."""
    return {"id": event.pk, "type": event.type, "at": event.at, "actor": event.actor, "reason": event.reason,
            "data": event.data}


def respond(request: HttpRequest, subject: Subject, *, follow: bool, after: int = 0) -> HttpResponseBase:
    """The response of an `/events` route: a stream, or with `follow=false` the status and events there are now."""
    if not follow or not isinstance(request, ASGIRequest):
        events = [event_document(event) for event in events_after(subject, after)]
        return JsonResponse({"status": subject.status(), "events": events})
    follower = Follower(subject, last_event_id(request, after))
    # This thread serves the request until the stream ends; its connection would stay taken all that time.
    connection.close()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(_frames(follower), content_type="text/event-stream", headers=headers)


def last_event_id(request: HttpRequest, after: int) -> int:
    """Where a follower that lost its connection left off. Raises InvalidInput."""
    text = request.headers.get("Last-Event-ID", "")
    if not text:
        return after
    if not text.isdecimal():
        raise InvalidInput(f"Last-Event-ID is {text[:40]!r}; it must be a number.", code="invalid_event_id")
    return int(text)


async def _frames(follower: Follower) -> AsyncIterator[str]:
    subject = follower.subject
    yield "retry: 2000\n\n"
    async for heard in bell().rings(f"{subject.kind}:{subject.id}", PING_SECONDS):
        frames = await sync_to_async(_look, thread_sensitive=False)(follower)
        for frame in frames:
            yield frame
        if follower.is_over:
            return
        if not heard:
            yield ": ping\n\n"


def _look(follower: Follower) -> list[str]:
    try:
        return follower.look()
    finally:
        connection.close()


def _frame(name: str, data: str, event_id: int | None = None) -> str:
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {data}\n\n"
