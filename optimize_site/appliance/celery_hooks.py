"""What the supervisor needs of Celery: word of readiness, and a timer inside the control worker."""

import os
import time
from typing import Any

from celery.beat import EmbeddedService, Scheduler
from celery.signals import worker_ready

from optimize_site.appliance.announce import TIMER_VARIABLE, announce_ready


class SteadyScheduler(Scheduler):
    """Beat by a clock that nobody sets. Celery's own goes by the wall clock: set back an hour, it is silent for one."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._due: dict[str, float] = {}
        super().__init__(*args, **options)

    def tick(self, **_: Any) -> float:
        """Send what is due. Gives the seconds until something is."""
        now = time.monotonic()
        for name, entry in self.schedule.items():
            if now >= self._due.setdefault(name, now + entry.schedule.seconds):
                self._due[name] = now + entry.schedule.seconds
                self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._due.values()) - now)


@worker_ready.connect
def tell_supervisor(sender: Any, **_: Any) -> None:
    """The worker takes messages; where it keeps the timer, beat starts as a thread of it.

    A thread ends with its worker, however that ends, and costs a fiftieth of a process. The schedule is kept in memory:
    the only entry is due every few seconds anyhow.
    """
    if os.environ.get(TIMER_VARIABLE):
        EmbeddedService(sender.app, thread=True, scheduler_cls=SteadyScheduler).start()
    announce_ready()
