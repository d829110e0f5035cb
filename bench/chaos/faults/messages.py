"""Faults of messages: the broker's bells, lost and doubled."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery
from redis import Redis

from bench.chaos.scene import Scene
from bench.chaos.schedule import Fault
from optimize_site.kernel.doorbell import ADVANCE, LOOK, device_queue

SLOTS = 2


def lose_messages(scene: Scene, fault: Fault) -> bool:
    """Whatever waits in the broker is gone."""
    address = scene.box.services()["redis_url"].partition("://")[2]
    try:
        Redis(unix_socket_path=address).flushall()
    except OSError:
        return False
    return True


def double_messages(scene: Scene, fault: Fault) -> bool:
    """Every bell rings five times."""
    return ring(scene, [*((LOOK, device_queue("cpu", slot)) for slot in range(SLOTS)), (ADVANCE, "control")] * 5)


def ring(scene: Scene, bells: list[tuple[str, str]]) -> bool:
    """Send tasks to queues; whether the broker took them."""
    celery = Celery(broker=scene.box.services()["redis_url"])
    try:
        for task, queue in bells:
            celery.send_task(task, queue=queue, ignore_result=True, retry=False)
    except Exception:  # a broker that is away at this moment, in any of the library's ways
        return False
    return True


OF_THE_BOX: dict[str, Callable[[Scene, Fault], bool]] = {
    "lose the messages": lose_messages,
    "double the messages": double_messages,
}
