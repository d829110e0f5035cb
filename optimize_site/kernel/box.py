"""What the box is and holds: the facts behind `info`, `status` and `capacity`."""

import platform
import shutil
from collections.abc import Callable
from typing import Any

from optimize_site.kernel.conf import home, setting
from optimize_site.kernel.models import Device, Lease

VERSION = "0.1.0"
ClaimLister = Callable[[str], list[dict[str, Any]]]
# Apps that hold devices add a function here: given a workload name or "", its claims as `capacity` shows them.
CLAIM_LISTERS: list[ClaimLister] = []
# Apps whose work depends on what this machine can do add here how `info` tells of it.
FACTS: dict[str, Callable[[], Any]] = {}


def describe() -> dict[str, Any]:
    """The document of `info`."""
    return {
        "backend": "local", "build": VERSION, "python": platform.python_version(), "engine": "trl",
        "engines": setting("trainer.runs.allowed-engines"), "home": str(home()), "startup": "complete",
        "node": platform.node(), "disk": disk(),
        "devices": [_device(device) for device in Device.objects.for_models().order_by("index")],
    } | {name: facts() for name, facts in FACTS.items()}


def disk() -> dict[str, Any]:
    """Bytes of the state folder's file system, and whether too few are free."""
    usage = shutil.disk_usage(home() if home().exists() else "/")
    return {"totalBytes": usage.total, "freeBytes": usage.free,
            "isLow": usage.free < setting("trainer.disk.warn-below-bytes")}


def capacity(workload: str = "") -> dict[str, Any]:
    """The document of `capacity`; `workload` narrows the claims, never the pools."""
    claims = [claim for lister in CLAIM_LISTERS for claim in lister(workload)]
    devices = list(Device.objects.for_models().filter(is_present=True).order_by("index"))
    pools = [_pool(profile, [d for d in devices if d.profile == profile], claims)
             for profile in dict.fromkeys(device.profile for device in devices)]
    return {"pools": pools, "claims": claims, "windows": [], "warnings": _warnings(),
            "devices": [_device(device) for device in devices]}


def _pool(profile: str, devices: list[Device], claims: list[dict[str, Any]]) -> dict[str, Any]:
    declared = sum(device.slots for device in devices)
    granted = Lease.objects.filter(device__in=devices, released_at=None).count()
    queued = sum(1 for claim in claims if claim["state"] == "QUEUED" and claim["pool"] in {profile, ""})
    return {"pool": profile, "accelerator": devices[0].name, "declared": declared, "observed": declared,
            "granted": granted, "free": max(0, declared - granted), "outside": 0, "queued": queued,
            "maxClaim": len(devices), "hostMemoryBytes": max(device.host_memory_bytes for device in devices)}


def _warnings() -> list[str]:
    if disk()["isLow"]:
        return [f"Only {disk()['freeBytes'] / 1024**3:.1f} GiB are free where the state folder lies."]
    return []


def _device(device: Device) -> dict[str, Any]:
    leases = device.leases.filter(released_at=None).order_by("slot")
    return {"uuid": device.uuid, "name": device.name, "kind": device.kind, "profile": device.profile,
            "memoryBytes": device.memory_bytes, "hostMemoryBytes": device.host_memory_bytes, "slots": device.slots,
            "isPresent": device.is_present,
            "heldBy": [{"slot": lease.slot, "kind": lease.holder_kind, "id": lease.holder_id,
                        "since": lease.acquired_at} for lease in leases]}
