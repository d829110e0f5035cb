"""Routes of the box itself: info, capacity, devices."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from optimize_site.kernel import box

router = Router(tags=["box"])


@router.get("/info")
def info(request: HttpRequest) -> dict[str, Any]:
    """How the box is configured, which build answers, and what its start did."""
    return box.describe()


@router.get("/capacity")
def capacity(request: HttpRequest, workload: str = "", project: str = "") -> dict[str, Any]:
    """Pools, devices, and every claim that holds or waits for one."""
    return box.capacity(workload or project)
