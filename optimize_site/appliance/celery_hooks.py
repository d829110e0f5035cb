"""What the supervisor needs of Celery: word of readiness, and a beat that ends with its worker."""

import signal
from typing import Any

from celery.signals import beat_embedded_init, worker_ready

from optimize_site.appliance.announce import announce_ready
from optimize_site.appliance.processes import dies_with_this_parent


@worker_ready.connect
def tell_supervisor(**_: Any) -> None:
    """The worker takes messages."""
    announce_ready()


@beat_embedded_init.connect
def end_with_worker(**_: Any) -> None:
    """Beat runs in a child of the control worker; it must not outlive a worker that was killed."""
    dies_with_this_parent(signal.SIGKILL)
