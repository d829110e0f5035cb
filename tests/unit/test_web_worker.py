"""The web's worker: it rests between its looks, and still ends when it is told to."""

import asyncio
import signal
import time

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


def test_a_worker_says_that_it_lives_also_after_the_clock_was_set_back():
    said = []

    async def notify():
        said.append(server.last_notified)

    server = web_worker.QuietServer(Config(answers_nothing, lifespan="off", log_config=None, callback_notify=notify,
                                           timeout_notify=30))
    server.last_notified = time.time() + 3600
    assert asyncio.run(server.on_tick(web_worker.UVICORN_TICKS)) is False
    assert len(said) == 1 and server.last_notified <= time.time()
    asyncio.run(server.on_tick(web_worker.UVICORN_TICKS))
    assert len(said) == 1, "it is told once in the time that gunicorn gives"
