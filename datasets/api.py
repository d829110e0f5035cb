"""Routes of named datasets and their versions."""

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Status

from datasets import operations, queries, render
from datasets.uploads import body_chunks, body_length, stated_lineage
from optimize_site.kernel.api import DEFAULT_LIMIT, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.downloads import download
from registry.models import Artifact, Version
from registry.operations import artifacts
from registry.queries import alias_history, get_alias, get_artifact, get_version, list_versions
from registry.references import LATEST, parse_namespace
from registry.render import alias_document, latest_document
from registry.schemas import AliasTarget, Note

router = Router(tags=["datasets"])


def _artifact(namespace: str, name: str) -> Artifact:
    return get_artifact(queries.KIND, f"{namespace}/{name}")


def _version(namespace: str, name: str, version: str) -> Version:
    return get_version(_artifact(namespace, name), version)


@router.get("")
def list_datasets(request: HttpRequest, namespace: str = "", limit: int = DEFAULT_LIMIT,
                  offset: int = 0) -> dict[str, Any]:
    """Named datasets."""
    wanted = parse_namespace(namespace) if namespace else ""
    return page(queries.list_datasets(namespace=wanted), "datasets", render.listed_dataset, limit=limit, offset=offset)


@router.get("/{namespace}/{name}")
def get_dataset(request: HttpRequest, namespace: str, name: str) -> dict[str, Any]:
    """A named dataset: its aliases and versions."""
    return render.named_dataset(_artifact(namespace, name))


@router.get("/{namespace}/{name}/versions")
def versions(request: HttpRequest, namespace: str, name: str, limit: int = DEFAULT_LIMIT,
             offset: int = 0) -> dict[str, Any]:
    """A dataset's versions, newest first."""
    found = list_versions(_artifact(namespace, name))
    return page(found, "versions", render.dataset_summary, limit=limit, offset=offset)


@router.post("/{namespace}/{name}/versions", response={200: Any, 201: Any})
def register(request: HttpRequest, namespace: str, name: str, alias: str = "", format: str = "", lineage: str = "",
             description: str = "") -> Status[Any]:
    """Register the body, chat rows one JSON object a line, as the next version; 200 where it was there already."""
    done = operations.register_dataset(
        f"{namespace}/{name}", body_chunks(request), length=body_length(request), alias=alias, format=format,
        lineage=stated_lineage(lineage), description=description, actor=actor_of(request))
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


@router.get("/{namespace}/{name}/aliases/{alias}")
def get_dataset_alias(request: HttpRequest, namespace: str, name: str, alias: str) -> dict[str, Any]:
    """Where an alias points, and where it pointed since it was set."""
    artifact = _artifact(namespace, name)
    if alias == LATEST:
        return latest_document(artifact, list_versions(artifact))
    return alias_document(get_alias(artifact, alias), alias_history(artifact, alias))


@router.put("/{namespace}/{name}/aliases/{alias}")
def set_alias(request: HttpRequest, namespace: str, name: str, alias: str, body: AliasTarget) -> dict[str, Any]:
    """Create or move an alias."""
    artifact = _artifact(namespace, name)
    placed = artifacts.set_alias(artifact, alias, get_version(artifact, body.version), actor=actor_of(request))
    return alias_document(placed, alias_history(artifact, placed.name))


@router.delete("/{namespace}/{name}/aliases/{alias}", response={204: None})
def remove_alias(request: HttpRequest, namespace: str, name: str, alias: str) -> Status[None]:
    """Take an alias away; versions stay."""
    artifacts.remove_alias(_artifact(namespace, name), alias, actor=actor_of(request))
    return Status(204, None)
