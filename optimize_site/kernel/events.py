"""Writes what happened, in the caller's transaction, and rings the bell that followers wait on."""

from typing import Any

from django.db import connection

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.models import Event

CHANNEL = "optimize_events"


def record(subject_kind: str, subject_id: str, type: str, *, actor: Actor, data: dict[str, Any] | None = None,
           reason: str = "") -> Event:
    """Append one event; followers hear of it when the transaction commits."""
    event = Event.objects.create(subject_kind=subject_kind, subject_id=subject_id, type=type, actor=actor.name,
                                 reason=reason, data=data or {})
    notify(subject_kind, subject_id)
    return event


def notify(subject_kind: str, subject_id: str) -> None:
    """Tell followers of a subject to look again; Postgres delivers it on commit, once however often it was said."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, f"{subject_kind}:{subject_id}"])
