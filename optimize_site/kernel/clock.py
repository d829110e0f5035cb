"""The wall clock, which the server reads here alone.

It may jump, by hand or by the network's time. Nothing that must happen within a process's life is timed by it: that
takes the monotonic clock. What outlives processes must be right after a jump in either direction.
"""

from datetime import datetime, timedelta

from django.utils import timezone


def now() -> datetime:
    """This moment."""
    return timezone.now()


def is_off(moment: datetime, *, late: timedelta, early: timedelta) -> bool:
    """Whether a moment lies further back than `late`, or further ahead than `early`, which only a clock that was set
    back explains."""
    return not now() - late <= moment <= now() + early
