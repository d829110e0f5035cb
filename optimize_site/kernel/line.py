"""The line for a device: what waits in it is taken in the order of `queued_at`, whichever app's work it is."""

from datetime import datetime, timedelta
from functools import cache

from django.apps import apps
from django.db.models import Max, Model

from optimize_site.kernel import clock

WAITING = ("AWAITING_CAPACITY", "AWAITING_GRADER", "PENDING")
"""The phases in which work has a place in the line."""


def end_of_line() -> datetime:
    """The place behind all that waits: now, or a moment later than that where the clock was set back meanwhile."""
    now = clock.now()
    places: list[datetime] = [now]
    for kind in _kinds():
        ahead = kind._default_manager.filter(phase__in=WAITING, queued_at__gt=now)
        places += [last + timedelta(milliseconds=1) for last in ahead.aggregate(last=Max("queued_at")).values() if last]
    return max(places)


@cache
def _kinds() -> tuple[type[Model], ...]:
    return tuple(model for model in apps.get_models() if any(field.name == "queued_at" for field in model._meta.fields))
