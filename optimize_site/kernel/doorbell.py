"""Rings the workers: "look again". Every fact is a row, so a lost or doubled ring is harmless."""

import logging
import time

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

log = logging.getLogger(__name__)
LOOK, ADVANCE = "gpu_worker.look", "gpu_worker.advance"


def ring_control() -> None:
    """Once this transaction commits, let the control worker take the next steps. The ring says when it was, by the
    clock that counts from the machine's start and that all its processes share."""
    transaction.on_commit(lambda: _send(ADVANCE, "control", time.monotonic()))


def ring_devices() -> None:
    """Once this transaction commits, let every device worker look for work."""
    transaction.on_commit(_ring_every_slot)


def device_queue(uuid: str, slot: int) -> str:
    """The Celery queue of one slot of a device."""
    return f"device.{uuid}.{slot}"


def slot_of(queue: str) -> int:
    """The slot that a queue's bell is for."""
    return int(queue.rpartition(".")[2])


def _ring_every_slot() -> None:
    from optimize_site.kernel.models import Device

    for device in Device.objects.filter(is_present=True):
        for slot in range(device.slots):
            _send(LOOK, device_queue(device.uuid, slot))


def _send(task: str, queue: str, *arguments: float) -> None:
    if not settings.RING_DOORBELLS:
        return
    try:
        celery = import_string(settings.DOORBELL_APPLICATION)
        celery.send_task(task, arguments, queue=queue, ignore_result=True, retry=False, expires=60)
    except Exception as error:  # the broker may be down in any of a client library's ways; the reconciler rings again
        log.warning("doorbell not rung", extra={"action": "doorbell_lost", "queue": queue, "error": str(error)})
