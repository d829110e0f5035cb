"""The Celery tasks: two bells, no facts. One makes a device's worker look for work, one takes control steps."""

import logging
import os
import time
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from django.db import close_old_connections

log = logging.getLogger(__name__)
_stopping = False


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
        look.apply_async(queue=f"device.{os.environ['OPTIMIZE_DEVICE']}.{os.environ['OPTIMIZE_SLOT']}")
    else:
        advance.apply_async(queue="control")


@shared_task(name="gpu_worker.look", ignore_result=True)
def look() -> None:
    """Serve this worker's slot until nothing waits."""
    from gpu_worker.drive import serve_slot

    close_old_connections()
    serve_slot(os.environ["OPTIMIZE_DEVICE"], int(os.environ["OPTIMIZE_SLOT"]), should_stop=should_stop)


@shared_task(name="gpu_worker.advance", ignore_result=True)
def advance() -> None:
    """Take every control step that is due, and ring again for whatever still waits."""
    from gpu_worker.control import advance_everything

    close_old_connections()
    started = time.monotonic()
    advance_everything()
    log.debug("advanced", extra={"action": "advanced", "seconds": time.monotonic() - started})
