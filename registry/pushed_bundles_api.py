"""Routes of the bare-name form `bundles push`."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from optimize_site.kernel.api import Body
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.bodies import BYTES, body_chunks
from registry.bundle_render import registered_document, version_document
from registry.operations import bundles as operations
from registry.operations.bundles import KIND
from registry.queries import resolve_version

router = Router(tags=["bundles"])


class PushedBytes(Body):
    """Bytes that the box holds, by their SHA-256."""

    sha256: str
    name: str = ""


@router.post("", response={200: dict[str, Any], 201: dict[str, Any]}, openapi_extra=BYTES)
def push_bundle(request: HttpRequest, name: str = "") -> Status[dict[str, Any]]:
    """Register the body, a ZIP, under its hash, or under a bare name that is moved to it."""
    done = operations.push_bundle(name, body_chunks(request), actor=actor_of(request))
    return Status(201 if done.is_new else 200, registered_document(done))


@router.post("/held", response={200: dict[str, Any], 201: dict[str, Any]})
def push_held_bundle(request: HttpRequest, body: PushedBytes) -> Status[dict[str, Any]]:
    """As pushing, for bytes that a bundle here holds already; not found where they must be sent."""
    done = operations.push_held_bundle(body.name, body.sha256, actor=actor_of(request))
    return Status(201 if done.is_new else 200, registered_document(done))


@router.get("/{path:bundle}")
def get_pushed_bundle(request: HttpRequest, bundle: str) -> dict[str, Any]:
    """A bundle by hash, unique prefix, name or reference."""
    return version_document(resolve_version(KIND, bundle))
