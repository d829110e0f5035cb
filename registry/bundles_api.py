"""Routes of registered bundles."""

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Status

from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.blobs import open_blob, read_chunks
from optimize_site.kernel.bodies import BYTES, body_chunks
from optimize_site.kernel.downloads import download
from registry.bundle_render import (
    bundle_document,
    bundle_row,
    registered_document,
    size_of,
    version_document,
    version_row,
)
from registry.lineage import stated_lineage
from registry.models import Version
from registry.named_routes import add_alias_routes
from registry.operations import bundles as operations
from registry.operations.artifacts import annotate_version
from registry.operations.bundles import KIND
from registry.queries import get_artifact, get_version, list_artifacts, list_versions
from registry.references import parse_namespace
from registry.schemas import Note

router = Router(tags=["bundles"])
add_alias_routes(router, KIND)


class HeldBytes(Body):
    """Bytes that the box holds, by their SHA-256."""

    sha256: str
    alias: str = ""
    description: str = ""
    lineage: dict[str, Any] = {}


def _version(namespace: str, name: str, version: str) -> Version:
    return get_version(get_artifact(KIND, f"{namespace}/{name}"), version)


@router.get("")
def list_bundles(request: HttpRequest, namespace: str = "", archived: bool = False, limit: int = DEFAULT_LIMIT,
                 offset: int = 0) -> dict[str, Any]:
    """Named bundles; of one namespace, or of all that are open, with `archived` of all."""
    found = list_artifacts(KIND, namespace=parse_namespace(namespace) if namespace else "", archived=archived)
    return page(found, "bundles", bundle_row, limit=limit, offset=offset)


@router.get("/{namespace}/{name}")
def get_bundle(request: HttpRequest, namespace: str, name: str) -> dict[str, Any]:
    """A named bundle: its aliases and versions."""
    return bundle_document(get_artifact(KIND, f"{namespace}/{name}"))


@router.get("/{namespace}/{name}/versions")
def list_bundle_versions(request: HttpRequest, namespace: str, name: str, limit: int = DEFAULT_LIMIT,
                         offset: int = 0) -> dict[str, Any]:
    """A bundle's versions, newest first."""
    found = list_versions(get_artifact(KIND, f"{namespace}/{name}"))
    return page(found, "versions", version_row, limit=limit, offset=offset)


@router.post("/{namespace}/{name}/versions", response={200: dict[str, Any], 201: dict[str, Any]}, openapi_extra=BYTES)
def register_bundle(request: HttpRequest, namespace: str, name: str, alias: str = "", description: str = "",
                    lineage: str = "") -> Status[dict[str, Any]]:
    """Register the body, a ZIP, as the next version; 200 where it was there already."""
    done = operations.register_bundle(f"{namespace}/{name}", body_chunks(request), alias=alias, description=description,
                                      lineage=stated_lineage(lineage), actor=actor_of(request))
    return Status(201 if done.is_new else 200, registered_document(done))


@router.post("/{namespace}/{name}/held", response={200: dict[str, Any], 201: dict[str, Any]})
def register_held_bundle(request: HttpRequest, namespace: str, name: str, body: HeldBytes) -> Status[dict[str, Any]]:
    """Register bytes that a bundle here holds already; not found where they must be sent."""
    done = operations.register_held_bundle(f"{namespace}/{name}", body.sha256, alias=body.alias,
                                           description=body.description, lineage=body.lineage, actor=actor_of(request))
    return Status(201 if done.is_new else 200, registered_document(done))


@router.get("/{namespace}/{name}/versions/{version}")
def get_bundle_version(request: HttpRequest, namespace: str, name: str, version: str) -> dict[str, Any]:
    """A version, by `vN`, alias or `sha256:…`: the files in it."""
    return version_document(_version(namespace, name, version))


@router.get("/{namespace}/{name}/versions/{version}/bundle.zip")
def download_bundle(request: HttpRequest, namespace: str, name: str, version: str) -> StreamingHttpResponse:
    """The exact ZIP that was registered."""
    found = _version(namespace, name, version)
    file = open_blob(found.content_hash)
    return download(request, read_chunks(file), name=f"{name}-v{found.number}.zip", size=size_of(found),
                    content_type="application/zip")


@router.post("/{namespace}/{name}/versions/{version}/annotate")
def annotate_bundle(request: HttpRequest, namespace: str, name: str, version: str, body: Note) -> dict[str, Any]:
    """Set or clear the note on a version."""
    return version_document(annotate_version(_version(namespace, name, version), description=body.description,
                                             actor=actor_of(request)))
