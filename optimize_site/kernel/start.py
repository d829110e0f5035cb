"""What a start of the box does once the database is migrated: the first admin, the devices it found."""

import platform
from collections.abc import Iterable
from typing import Protocol

from django.db import transaction

from optimize_site.kernel import accounts, clock
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.models import Device, User


class FoundDevice(Protocol):
    """What the device probe says of one device."""

    @property
    def uuid(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def profile(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def host_memory_bytes(self) -> int: ...
    @property
    def slots(self) -> int: ...


def first_admin() -> str | None:
    """The password of a fresh `admin` account on a box without one; None where there is one already."""
    if User.objects.filter(role="admin").exists():
        return None
    _, password = accounts.create_user("admin", "admin", actor=SYSTEM)
    return password


@transaction.atomic
def sync_devices(found: Iterable[FoundDevice]) -> None:
    """Make the device rows of this node say what was found; one that is gone stays, marked absent."""
    node, now = platform.node(), clock.now()
    present = []
    for device in found:
        Device.objects.update_or_create(uuid=device.uuid, defaults={
            "node": node, "name": device.name, "kind": device.kind, "profile": device.profile, "index": device.index,
            "memory_bytes": device.memory_bytes, "host_memory_bytes": device.host_memory_bytes,
            "slots": device.slots, "is_present": True, "seen_at": now})
        present.append(device.uuid)
    Device.objects.filter(node=node).exclude(uuid__in=present).update(is_present=False)
