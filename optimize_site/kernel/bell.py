"""One LISTEN connection a web process, heard by every open stream: "look again", never what to see."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator

import psycopg
from django.db import connections
from psycopg.conninfo import make_conninfo

from optimize_site.kernel.events import CHANNEL

log = logging.getLogger(__name__)
EVERYTHING = "*"
LONGEST_BACK_OFF = 10.0


class Bell:
    """The ears of one event loop. A subject is `kind:id`; EVERYTHING hears every subject."""

    def __init__(self) -> None:
        self._ears: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._listener: asyncio.Task[None] | None = None

    async def rings(self, subject: str, idle: float) -> AsyncIterator[bool]:
        """True at once and after each change of the subject, False after `idle` seconds without one."""
        ear = asyncio.Event()
        ear.set()
        self._ears[subject].add(ear)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ear.wait(), idle)
                heard = ear.is_set()
                ear.clear()
                yield heard
        finally:
            self._forget(subject, ear)

    def _forget(self, subject: str, ear: asyncio.Event) -> None:
        self._ears[subject].discard(ear)
        if not self._ears[subject]:
            del self._ears[subject]
        if not self._ears and self._listener is not None:
            self._listener.cancel()
            self._listener = None

    async def _listen(self) -> None:
        """Listen for ever; after a lost connection everybody looks again, because a ring may have been missed."""
        back_off = 0.5
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(_address(), autocommit=True) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")  # type: ignore[call-overload]
                    back_off = 0.5
                    self._ring_all()
                    async for notice in connection.notifies():
                        self._ring(notice.payload)
            except psycopg.Error as error:
                log.warning("bell not heard", extra={"action": "bell_lost", "error": str(error)})
            await asyncio.sleep(back_off)
            back_off = min(LONGEST_BACK_OFF, back_off * 2)

    def _ring(self, subject: str) -> None:
        for ear in self._ears.get(subject, set()) | self._ears.get(EVERYTHING, set()):
            ear.set()

    def _ring_all(self) -> None:
        for ears in self._ears.values():
            for ear in ears:
                ear.set()


def _address() -> str:
    found = connections["default"].settings_dict
    stated = {"dbname": found["NAME"], "user": found["USER"], "password": found["PASSWORD"], "host": found["HOST"],
              "port": found["PORT"]} | found["OPTIONS"]
    return make_conninfo("", **{key: str(value) for key, value in stated.items() if value not in ("", None)})


_bells: dict[asyncio.AbstractEventLoop, Bell] = {}


def bell() -> Bell:
    """The bell of the running event loop."""
    return _bells.setdefault(asyncio.get_running_loop(), Bell())
