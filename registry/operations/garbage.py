"""Collecting garbage: what nothing refers to, listed or removed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.conf import setting
from optimize_site.kernel.garbage import COLLECTORS, Waste
from registry.errors import CollectionRunning

LOCK = 7_305_001
"""The advisory lock that one collection of garbage holds."""


@dataclass(frozen=True)
class Collection:
    """What was found. `kept` is what something came to refer to meanwhile; a dry run removes and keeps nothing."""

    found: list[Waste]
    kept: list[Waste]
    before: datetime
    is_dry_run: bool

    @property
    def size_bytes(self) -> int:
        """What went, or would go."""
        return sum(waste.size_bytes for waste in self.found if waste not in self.kept)


def list_garbage(*, actor: Actor) -> Collection:
    """What a collection would remove. Changes nothing."""
    actor.require("viewer")
    before = _before()
    return Collection(list(_found(before)), [], before, is_dry_run=True)


def collect_garbage(*, actor: Actor) -> Collection:
    """Remove what no row, open upload, job or version has referred to for the grace that the settings give.

    Raises CollectionRunning where another collection is at work.
    """
    actor.require("admin")
    before = _before()
    with _alone():
        found = list(_found(before))
        kept = [waste for waste in found if not waste.remove()]
    done = Collection(found, kept, before, is_dry_run=False)
    events.record("registry", "garbage", "registry.collected", actor=actor,
                  data={"removed": len(found) - len(kept), "bytes": done.size_bytes})
    return done


def _before() -> datetime:
    return clock.now() - timedelta(hours=float(setting("registry.garbage.grace-hours")))


def _found(before: datetime) -> Iterator[Waste]:
    for collector in COLLECTORS:
        yield from collector(before)


@contextmanager
def _alone() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        if not cursor.fetchone()[0]:
            raise CollectionRunning("Garbage is being collected already.", hint="Wait until it is done.")
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
