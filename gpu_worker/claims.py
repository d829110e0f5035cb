"""Leases on device slots: claim, adopt, renew, release. Every later write of a holder is fenced by its token."""

from datetime import timedelta
from typing import Any

from django.db import connection, transaction

from gpu_worker.errors import LeaseLost
from gpu_worker.kinds import KINDS, row_of
from optimize_site.kernel import clock
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.models import Attempt, Device, Lease
from optimize_site.kernel.work import WorkKind

LEASE = timedelta(seconds=30)


def next_token() -> int:
    """The next fencing token."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('lease_tokens')")
        row = cursor.fetchone()
    return int(row[0])


@transaction.atomic
def claim(device_uuid: str, slot: int) -> Attempt | None:
    """Give the slot the piece of work that waited longest, if it is free and something waits.

    1. Lock the device row, so that two workers of one slot take turns. 2. A live lease, expired or not, means the slot
    is not free. 3. The oldest waiting row that nobody else has locked gets a lease and an attempt.
    """
    device = Device.objects.select_for_update().filter(uuid=device_uuid, is_present=True).first()
    if device is None or Lease.objects.filter(device=device, slot=slot, released_at=None).exists():
        return None
    found = _oldest_waiting(device)
    if found is None:
        return None
    kind, row = found
    lease = Lease.objects.create(device=device, slot=slot, holder_kind=kind.kind, holder_id=row.pk, token=next_token(),
                                 expires_at=clock.now() + LEASE)
    attempt = Attempt.objects.create(id=new_id(), holder_kind=kind.kind, holder_id=row.pk, number=row.num_attempts + 1,
                                     lease=lease)
    kind.start(row, attempt)
    return attempt


def _oldest_waiting(device: Device) -> tuple[WorkKind, Any] | None:
    waiting = []
    for kind in KINDS.values():
        row = kind.waiting(device).select_for_update(skip_locked=True, of=("self",)).first()
        if row is not None:
            waiting.append((row.queued_at, kind.kind, kind, row))
    return min(waiting, key=lambda found: found[:2])[2:] if waiting else None


@transaction.atomic
def adopt(device_uuid: str, slot: int) -> Attempt | None:
    """Take over the slot's live lease under a new token, which fences whoever held it; None where there is none."""
    lease = (Lease.objects.select_for_update().filter(device_id=device_uuid, slot=slot, released_at=None).first())
    return None if lease is None else take_over(lease)


def take_over(lease: Lease) -> Attempt:
    """A new token for a locked lease and the row it is for. Gives its attempt."""
    old, lease.token = lease.token, next_token()
    lease.expires_at = clock.now() + LEASE
    lease.save(update_fields=["token", "expires_at"])
    row = row_of(lease.holder_kind, lease.holder_id)
    type(row).objects.filter(pk=row.pk, lease_token=old).update(lease_token=lease.token)
    return lease.attempts.select_related("lease").latest("number")


def renew(lease: Lease) -> None:
    """Hold the lease for another while. Raises LeaseLost where it was given to somebody else."""
    kept = Lease.objects.filter(pk=lease.pk, token=lease.token, released_at=None).update(
        expires_at=clock.now() + LEASE)
    if not kept:
        raise LeaseLost(f"The {lease.holder_kind} {lease.holder_id[:12]} was given to another worker; stopping.")


def lock(lease: Lease) -> None:
    """Hold the lease's row until the transaction ends. Raises LeaseLost."""
    same = Lease.objects.select_for_update().filter(pk=lease.pk, token=lease.token, released_at=None)
    if not same.exists():
        raise LeaseLost(f"The {lease.holder_kind} {lease.holder_id[:12]} was given to another worker; stopping.")


def release(lease: Lease) -> None:
    """Free the slot. Only once the process is gone."""
    Lease.objects.filter(pk=lease.pk).update(released_at=clock.now())
