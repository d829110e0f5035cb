"""The web's worker: it rests between its looks, and still ends when it is told to."""

import asyncio
import signal

from uvicorn import Config

from optimize_site.appliance import web_worker


async def answers_nothing(scope, receive, send):
    raise AssertionError("nobody asks")


def test_a_worker_that_is_told_to_end_ends_without_waiting_for_its_next_look(monkeypatch):
    monkeypatch.setattr(web_worker, "TICK_SECONDS", 3600.0)
    server = web_worker.QuietServer(Config(answers_nothing, lifespan="off", port=0, log_config=None))

    async def told_to_end():
        serving = asyncio.ensure_future(server.serve())
        while not hasattr(server, "_loop"):
            await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)
        await asyncio.wait_for(asyncio.shield(serving), 60)

    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        asyncio.run(told_to_end())
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT], "the signal goes on to whoever would have had it"
