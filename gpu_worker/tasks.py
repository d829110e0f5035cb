"""The Celery tasks: two bells, no facts. One makes a device's worker look for work, one takes control steps."""

import logging
import os
import threading
import time
from collections import defaultdict
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from django.db import close_old_connections, connections

from optimize_site.kernel.doorbell import device_queue, slot_of

log = logging.getLogger(__name__)
THOROUGH_SECONDS = 30.0
_stopping = False
_thorough_at = 0.0
_seen_at = 0.0
_serving: dict[int, threading.Lock] = defaultdict(threading.Lock)


def should_stop() -> bool:
    """Whether this worker was told to end."""
    return _stopping


@worker_shutting_down.connect
def note_shutdown(**_: Any) -> None:
    """The supervisor stops this worker: the job in hand is asked to save and end."""
    global _stopping
    _stopping = True


@worker_ready.connect
def look_at_once(sender: Any, **_: Any) -> None:
    """A worker that just started first picks up what its slot still holds."""
    if os.environ.get("OPTIMIZE_DEVICE"):
        for slot in os.environ["OPTIMIZE_SLOTS"].split(","):
            look.apply_async(queue=device_queue(os.environ["OPTIMIZE_DEVICE"], int(slot)))
    else:
        advance.apply_async(queue="control")


@shared_task(name="gpu_worker.look", bind=True, ignore_result=True)
def look(self: Any) -> None:
    """Serve the slot whose bell rang until nothing waits."""
    serve_alone(os.environ["OPTIMIZE_DEVICE"], slot_of(self.request.delivery_info["routing_key"]))


def serve_alone(device: str, slot: int) -> None:
    """Serve a slot, unless a thread of this worker does already: it would take over what that one drives."""
    from gpu_worker.drive import serve_slot

    if not _serving[slot].acquire(blocking=False):
        return
    try:
        close_old_connections()
        serve_slot(device, slot, should_stop=should_stop)
    finally:
        connections.close_all()
        _serving[slot].release()


@shared_task(name="gpu_worker.advance", ignore_result=True)
def advance(rung_at: float | None = None) -> None:
    """Take every control step that is due; twice a minute tidy up too, and ring again for whatever waits. What an
    unreachable database kept from being seen or tidied is the next pass's.

    Many ring while one pass goes on, and the next pass answers them all: what was rung for before it began, it sees.
    """
    from gpu_worker.control import advance_everything

    global _thorough_at, _seen_at
    if rung_at is not None and rung_at < _seen_at:
        return
    close_old_connections()
    started = time.monotonic()
    is_thorough = started >= _thorough_at
    if advance_everything(is_thorough=is_thorough):
        _seen_at = started
        _thorough_at = started + THOROUGH_SECONDS if is_thorough else _thorough_at
    log.debug("advanced", extra={"action": "advanced", "seconds": time.monotonic() - started})
