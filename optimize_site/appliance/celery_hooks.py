"""What the supervisor needs of Celery: word of readiness, and a timer inside the control worker."""

import os
from typing import Any

from celery.beat import EmbeddedService
from celery.signals import worker_ready

from optimize_site.appliance.announce import TIMER_VARIABLE, announce_ready


@worker_ready.connect
def tell_supervisor(sender: Any, **_: Any) -> None:
    """The worker takes messages; where it keeps the timer, beat starts as a thread of it.

    A thread ends with its worker, however that ends, and costs a fiftieth of a process. The schedule is kept in memory:
    the only entry is due every few seconds anyhow.
    """
    if os.environ.get(TIMER_VARIABLE):
        EmbeddedService(sender.app, thread=True, scheduler_cls="celery.beat:Scheduler").start()
    announce_ready()
