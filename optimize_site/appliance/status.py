"""What the box is doing, whether it is up or down: the supervisor's own notes, checked against what really runs."""

from typing import Any

from optimize_site.appliance.documents import read_document
from optimize_site.appliance.lock import supervisor_of
from optimize_site.appliance.places import Places
from optimize_site.processes import Identity

SHOWN = ("name", "state", "since", "restarts", "pid", "lastError", "log")


def describe_status(places: Places) -> dict[str, Any]:
    """The document of `./optimize status`. `state` is down, starting, ready, degraded or stopping."""
    note = read_document(places.status)
    supervisor = supervisor_of(places)
    services = [_service(service) for service in note.get("services", [])]
    return {
        "home": str(places.home),
        "state": _state(note.get("phase", ""), services) if supervisor else "down",
        "url": note.get("webUrl", "") if supervisor else "",
        "since": note.get("since") if supervisor else None,
        "pid": supervisor.pid if supervisor else None,
        "services": services,
    }


def _state(phase: str, services: list[dict[str, Any]]) -> str:
    if phase == "ready" and any(service["state"] != "ready" for service in services):
        return "degraded"
    return phase or "starting"


def _service(service: dict[str, Any]) -> dict[str, Any]:
    """The notes on a service; one whose process is gone is never shown as running."""
    shown = {key: service.get(key) for key in SHOWN}
    is_alive = bool(service.get("pid")) and Identity(service["pid"], service["started"]).is_alive()
    if not is_alive and service.get("state") in ("ready", "starting", "stopping"):
        shown |= {"state": "stopped", "pid": None}
    return shown
