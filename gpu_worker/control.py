"""The reconciler: every control step that is due, whatever message was lost."""

import logging
from collections.abc import Callable
from datetime import timedelta

from django.db import InterfaceError, OperationalError, transaction

import datasets.analyses.operations
import datasets.operations
import endpoints.operations
import evaluations.operations
import registry.operations
import runs.operations
from gpu_worker import claims, processes
from gpu_worker.drive import Driver
from gpu_worker.kinds import KINDS
from optimize_site.kernel import blobs, clock, doorbell
from optimize_site.kernel.models import Device, Lease
from optimize_site.kernel.work import attempt_folder

log = logging.getLogger(__name__)
REAP_AFTER = timedelta(seconds=60)
Step = Callable[[], object]
STEPS: tuple[Step, ...] = (
    registry.operations.advance_all, datasets.analyses.operations.advance_all, runs.operations.advance_all,
    evaluations.operations.advance_all, endpoints.operations.advance_all)
TENDING: tuple[Step, ...] = (runs.operations.tend_snapshots, datasets.operations.clean_uploads,
                            blobs.end_holds_ahead)


def advance_everything(*, is_thorough: bool = True) -> bool:
    """One pass over all open work, and whether the database answered all of it. A step that raises is logged and does
    not keep the others from theirs.

    A thorough pass also tidies up, and rings for what waits in case a bell was lost.
    """
    answered = True
    for step in (*STEPS, reap, *((*TENDING, ring_waiting) if is_thorough else ())):
        try:
            step()
        except Exception as error:  # one row's fault must not stop the box's other work; it is logged whole
            log.exception("control step failed", extra={"action": "control_step_failed", "step": step.__module__})
            answered = answered and not isinstance(error, OperationalError | InterfaceError)
    return answered


def reap() -> None:
    """Settle attempts whose worker has been silent and whose process is gone.

    A lease that ends later than any that is given now was given before the clock was set back; its worker renews it
    within seconds, if there is one. What keeps one from being settled is logged, and it is looked at again.
    """
    for lease in Lease.objects.filter(released_at=None):
        try:
            _reap(lease)
        except (OperationalError, InterfaceError):
            raise  # the database does not answer: no fault of this lease, and none of the others can be settled
        except Exception:  # one lease's fault, such as a full disk, must not keep the others from being settled
            log.exception("attempt not settled", extra={"action": "attempt_not_settled", "lease": lease.pk})


def _reap(lease: Lease) -> None:
    if not clock.is_off(lease.expires_at, late=REAP_AFTER, early=claims.LEASE + REAP_AFTER):
        return
    attempt = lease.attempts.latest("number")
    if processes.any_alive(attempt_folder(attempt.pk)):
        return
    with transaction.atomic():
        locked = Lease.objects.select_for_update(skip_locked=True).filter(pk=lease.pk, released_at=None).first()
        taken = claims.take_over(locked) if locked is not None else None
    if taken is not None:
        Driver(taken, should_stop=lambda: False).settle()


def ring_waiting() -> None:
    """Ring the device workers where something waits."""
    devices = list(Device.objects.filter(is_present=True))
    if any(kind.waiting(device).exists() for kind in KINDS.values() for device in devices):
        with transaction.atomic():
            doorbell.ring_devices()
