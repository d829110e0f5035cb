"""Routes of named datasets and their versions."""

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Status

from datasets import operations, queries, render
from optimize_site.kernel.api import DEFAULT_LIMIT, page, page_of
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.bodies import BYTES, body_chunks, body_length
from optimize_site.kernel.downloads import download
from registry.lineage import stated_lineage
from registry.models import Artifact, Version
from registry.named_routes import add_alias_routes
from registry.operations import artifacts
from registry.queries import get_artifact, get_version, list_versions
from registry.references import parse_namespace
from registry.schemas import Note

router = Router(tags=["datasets"])
add_alias_routes(router, queries.KIND)


def _artifact(namespace: str, name: str) -> Artifact:
    return get_artifact(queries.KIND, f"{namespace}/{name}")


def _version(namespace: str, name: str, version: str) -> Version:
    return get_version(_artifact(namespace, name), version)


@router.get("")
def list_datasets(request: HttpRequest, namespace: str = "", archived: bool = False, limit: int = DEFAULT_LIMIT,
                  offset: int = 0) -> dict[str, Any]:
    """Named datasets; of one namespace, or of all that are open, with `archived` of all."""
    found = queries.list_datasets(namespace=parse_namespace(namespace) if namespace else "", archived=archived)
    return page(found, "datasets", render.listed_dataset, limit=limit, offset=offset)


@router.get("/{namespace}/{name}")
def get_dataset(request: HttpRequest, namespace: str, name: str) -> dict[str, Any]:
    """A named dataset: its aliases and versions."""
    return render.named_dataset(_artifact(namespace, name))


@router.get("/{namespace}/{name}/versions")
def versions(request: HttpRequest, namespace: str, name: str, limit: int = DEFAULT_LIMIT,
             offset: int = 0) -> dict[str, Any]:
    """A dataset's versions, newest first."""
    found = list_versions(_artifact(namespace, name))
    return page_of(found, "versions", render.dataset_summaries, limit=limit, offset=offset)


@router.post("/{namespace}/{name}/versions", response={200: Any, 201: Any}, openapi_extra=BYTES)
def register(request: HttpRequest, namespace: str, name: str, alias: str = "", format: str = "", lineage: str = "",
             description: str = "", images: str = "") -> Status[Any]:
    """Register the body as the next version: rows, one JSON object a line, or the ZIP of a format that is sent so.

    `images` is the `manifest` of the images that rows name. 200 where the examples were there already.
    """
    done = operations.register_dataset(
        f"{namespace}/{name}", body_chunks(request), length=body_length(request), alias=alias, format=format,
        lineage=stated_lineage(lineage), description=description, images=images, actor=actor_of(request))
    return Status(201 if done.is_new else 200, render.registered(done))


@router.get("/{namespace}/{name}/versions/{version}")
def get_dataset_version(request: HttpRequest, namespace: str, name: str, version: str) -> dict[str, Any]:
    """A version, by `vN`, alias or `sha256:…`: what it holds and where."""
    return render.dataset_version(_version(namespace, name, version))


@router.post("/{namespace}/{name}/versions/{version}/annotate")
def annotate(request: HttpRequest, namespace: str, name: str, version: str, body: Note) -> dict[str, Any]:
    """Set the note on a version."""
    noted = artifacts.annotate_version(_version(namespace, name, version), description=body.description,
                                       actor=actor_of(request))
    return render.dataset_version(noted)


@router.get("/{namespace}/{name}/versions/{version}/objects/{path:path}")
def get_object(request: HttpRequest, namespace: str, name: str, version: str, path: str) -> StreamingHttpResponse:
    """One object's bytes, as they were stored."""
    item = queries.get_object(_version(namespace, name, version), path)
    return download(request, queries.object_bytes(item), name=path.rpartition("/")[2], size=item["bytes"])
