"""The web's worker: uvicorn's, which looks about itself once a second where uvicorn's own does ten times.

An idle box is mostly its clocks: those ten looks a second cost more than the rest of the web process.
"""

import asyncio
import sys
import time
from types import FrameType

from gunicorn.arbiter import Arbiter
from uvicorn.server import Server
from uvicorn_worker import UvicornWorker

TICK_SECONDS = 1.0
UVICORN_TICKS = 10
"""Of uvicorn's own ticks to a second: it sets its `Date` header and tells gunicorn that it lives at every tenth."""


class QuietServer(Server):
    """Serves as uvicorn does, and ends as soon as it is told to."""

    async def main_loop(self) -> None:
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(UVICORN_TICKS):
            try:
                await asyncio.wait_for(self._is_over.wait(), TICK_SECONDS)
            except TimeoutError:
                continue

    async def on_tick(self, counter: int) -> bool:
        """Uvicorn tells gunicorn that it lives by the wall clock: after one that was set back it would be silent for as
        long, and gunicorn would end it."""
        if self.last_notified > time.time():
            self.last_notified = 0.0
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if hasattr(self, "_loop"):
            self._loop.call_soon_threadsafe(self._is_over.set)


class QuietWorker(UvicornWorker):
    """Gunicorn's side of it."""

    async def _serve(self) -> None:
        self.config.app = self.wsgi
        self._install_sigquit_handler()
        server = QuietServer(self.config)
        await server.serve(sockets=self.sockets)
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
