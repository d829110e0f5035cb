"""Slows down guessing of passwords: after a few failures a wait, which doubles."""

from datetime import timedelta

from django.http import HttpRequest

from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.models import Event, User

KIND = "sign_in"
FAILURES_OF_ONE_NAME, FAILURES_OF_ONE_ADDRESS = 5, 30
FIRST_WAIT, LONGEST_WAIT = 15, 900


def decide_wait(failures: int, allowed: int, seconds_since_last: float) -> int:
    """Whole seconds still to wait after so many failures in a row, the last one so long ago."""
    if failures < allowed:
        return 0
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(failures - allowed, 10))
    return max(0, -int(-(wait - seconds_since_last) // 1))


def seconds_to_wait(request: HttpRequest, username: str) -> int:
    """How long this address must wait before it may try this name again.

    A failure that lies ahead is of before the clock was set back; it would close the door for as long as that.
    """
    now = clock.now()
    recent = Event.objects.filter(subject_kind=KIND, subject_id=_address(request), type="sign_in.failed",
                                  at__range=(now - timedelta(seconds=2 * LONGEST_WAIT), now)).order_by("-id")
    success = Event.objects.filter(subject_kind=KIND, subject_id=_address(request), type="sign_in.succeeded",
                                   data__name=_known(username)).order_by("-id").first()
    of_name = recent.filter(data__name=_known(username), id__gt=success.pk if success else 0)
    return max(_wait(of_name[:20], FAILURES_OF_ONE_NAME), _wait(recent[:60], FAILURES_OF_ONE_ADDRESS))


def note(request: HttpRequest, username: str, *, succeeded: bool) -> None:
    """Record how a try ended. A name nobody has is not written down: it may be a password typed into the wrong box."""
    outcome = "succeeded" if succeeded else "failed"
    events.record(KIND, _address(request), f"sign_in.{outcome}", actor=SYSTEM, data={"name": _known(username)})


def _wait(failures: object, allowed: int) -> int:
    found = list(failures)  # type: ignore[call-overload]
    if not found:
        return 0
    return decide_wait(len(found), allowed, (clock.now() - found[0].at).total_seconds())


def _known(username: str) -> str:
    return username if User.objects.filter(username=username).exists() else ""


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))[:64] or "local"
