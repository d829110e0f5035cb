"""Following a run by server-sent events: the status first, then each change once, and an end."""

import asyncio
import json
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import AsyncClient

from optimize_site.kernel import events, stream
from optimize_site.kernel.auth import LOCAL_SECRET, SYSTEM
from optimize_site.kernel.models import Event
from runs.operations import cancel_run
from tests.factories import make_device, make_run

pytestmark = pytest.mark.django_db(transaction=True)
RUNS = "/v1/training/runs"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def run(db):
    make_device()
    return make_run()


def in_thread(work):
    def whole():
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=whole)
    thread.start()
    thread.join()


async def frames_of(run, *, headers=None, after_first=None):
    """Every frame until the stream ends; `after_first` happens once the first status was read."""
    response = await ask(run, headers or {})
    assert response["Content-Type"] == "text/event-stream"
    frames = []
    async with asyncio.timeout(20):
        async for chunk in response.streaming_content:
            frame = parse(chunk.decode())
            if frame:
                frames.append(frame)
                if len(frames) == 1 and after_first:
                    await asyncio.to_thread(in_thread, after_first)
    return frames


async def ask(run, headers):
    headers = {"Authorization": f"Bearer {LOCAL_SECRET}"} | headers
    try:
        return await AsyncClient().get(f"{RUNS}/{run.pk}/events", headers=headers)
    finally:
        await sync_to_async(lambda: connection.close())()


def parse(text):
    fields = dict(line.split(": ", 1) for line in text.strip().splitlines() if not line.startswith(":"))
    return fields | {"data": json.loads(fields["data"])} if "data" in fields else None


@pytest.mark.requirement("R190")
def test_the_current_status_comes_first_then_changes_and_then_the_end(run):
    frames = asyncio.run(frames_of(run, after_first=lambda: cancel_run(run, actor=SYSTEM)))
    assert (frames[0]["event"], frames[0]["data"]["phase"]) == ("status", "RESOLVING_DATASET")
    assert [frame["data"]["type"] for frame in frames if frame["event"] == "event"] == [
        "run.submitted", "run.cancel_requested", "run.cleaning_up", "run.cancelled"]
    assert [frame["data"]["phase"] for frame in frames if frame["event"] == "status"][-1] == "CANCELLED"
    assert (frames[-1]["event"], frames[-1]["data"]) == ("end", {"phase": "CANCELLED"})


@pytest.mark.requirement("R190")
def test_a_follower_that_lost_its_connection_goes_on_after_the_last_event_it_saw(run):
    cancel_run(run, actor=SYSTEM)
    seen = Event.objects.filter(subject_id=run.pk).order_by("id")[1].pk
    frames = asyncio.run(frames_of(run, headers={"Last-Event-ID": str(seen)}))
    assert frames[0]["event"] == "status"
    assert [frame["data"]["type"] for frame in frames if frame["event"] == "event"] == ["run.cleaning_up",
                                                                                         "run.cancelled"]


def test_an_event_that_committed_late_is_still_told_once(run):
    subject = stream.Subject("run", run.pk, status=lambda: {"phase": "TRAINING"}, is_over=lambda status: False)
    follower = stream.Follower(subject, 0)
    assert sum("event: event" in frame for frame in follower.look()) == 1
    newest = events.record("run", run.pk, "run.b", actor=SYSTEM)
    follower.look()
    Event.objects.create(id=newest.pk - 1_000_000 if newest.pk > 1_000_000 else newest.pk + 5, subject_kind="run",
                         subject_id=run.pk, type="run.late", actor="system")
    told = [frame for frame in follower.look() if "run.late" in frame]
    assert len(told) == 1
    assert not any("event: event" in frame for frame in follower.look())


def test_an_unchanged_status_is_not_sent_again(run):
    status = {"phase": "TRAINING"}
    follower = stream.Follower(stream.Subject("run", run.pk, lambda: status, lambda found: False), 0)
    assert any("event: status" in frame for frame in follower.look())
    assert follower.look() == []
    status["phase"] = "RECORDING"
    assert any("event: status" in frame for frame in follower.look())


def test_a_last_event_id_that_is_no_number_is_refused(run):
    answer = asyncio.run(ask(run, {"Last-Event-ID": "x"}))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_event_id")
