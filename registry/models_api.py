"""Routes of registered models. A version is named by `NS/NAME[:vN|:ALIAS]`, `NS/NAME@sha256:…`, or its model ID."""

from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Router, Status

from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.downloads import download
from optimize_site.kernel.errors import InvalidInput
from registry import model_queries as queries
from registry.model_render import (
    adapter_zip,
    alias_document,
    card_of,
    model_document,
    model_row,
    version_document,
    version_row,
)
from registry.operations import models as operations
from registry.operations.artifacts import annotate_version, remove_alias
from registry.operations.model_aliases import set_model_alias
from registry.queries import get_artifact, get_version, list_artifacts
from registry.references import parse_reference
from registry.schemas import AliasTarget, Note

router = Router(tags=["models"])


class Registration(Body):
    descriptor: dict[str, Any]
    alias: str = ""


class Pointing(AliasTarget):
    """`note` and `force` are for a promotion."""

    note: str = ""
    force: bool = False


@router.get("")
def list_models(request: HttpRequest, namespace: str = "", project: str = "", limit: int = DEFAULT_LIMIT,
                offset: int = 0) -> dict[str, Any]:
    """Named models; `project` narrows as `namespace` does."""
    models = list_artifacts("model", namespace=namespace or project)
    return page(models, "models", model_row, limit=limit, offset=offset)


@router.get("/{path:model}/versions")
def list_versions(request: HttpRequest, model: str, baseModel: str = "", producedByKind: str = "",
                  producedById: str = "", limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """A model's versions, newest first, narrowed by base model or by producer, not both."""
    if bool(producedByKind) != bool(producedById) or (baseModel and producedByKind):
        raise InvalidInput("Narrow by base model, or by producer kind and ID together.", code="filters_conflict")
    versions = queries.filter_versions(get_artifact("model", model), base_model=baseModel,
                                       produced_by_kind=producedByKind, produced_by_id=producedById)
    return page(versions, "versions", version_row, limit=limit, offset=offset)


@router.get("/{path:model}/aliases/{alias}")
def get_alias(request: HttpRequest, model: str, alias: str) -> dict[str, Any]:
    """Which version an alias names, and since when it named which, oldest first."""
    return alias_document(get_artifact("model", model), alias)


@router.post("/{path:model}/aliases/{alias}")
def set_alias(request: HttpRequest, model: str, alias: str, body: Pointing) -> dict[str, Any]:
    """Point an alias at a version; `champion` in a workload's namespace is a promotion."""
    artifact = get_artifact("model", model)
    set_model_alias(artifact, alias, get_version(artifact, body.version), note=body.note, force=body.force,
                    actor=actor_of(request))
    return alias_document(artifact, alias.lower())


@router.delete("/{path:model}/aliases/{alias}", response={204: None})
def remove_model_alias(request: HttpRequest, model: str, alias: str) -> Status[None]:
    """Take an alias away; its history stays."""
    remove_alias(get_artifact("model", model), alias, actor=actor_of(request))
    return Status(204, None)


@router.get("/{path:model}/card")
def get_card(request: HttpRequest, model: str) -> HttpResponse:
    """The model card, in Markdown."""
    return HttpResponse(card_of(queries.get_model(model)), content_type="text/markdown; charset=utf-8")


@router.get("/{path:model}/adapter.zip")
def download_adapter(request: HttpRequest, model: str) -> StreamingHttpResponse:
    """The adapter's files and its card."""
    version = queries.get_adapter(model)
    name = f"{version.artifact.name}-v{version.number}.zip"
    return download(request, adapter_zip(version), name=name, content_type="application/zip")


@router.post("/{path:model}/register", response={201: dict[str, Any]})
def register_model(request: HttpRequest, model: str, body: Registration) -> Status[dict[str, Any]]:
    """Register a version from a descriptor."""
    version = operations.register_descriptor(model, body.descriptor, alias=body.alias, actor=actor_of(request))
    return Status(201, version_document(version))


@router.post("/{path:model}/annotate")
def annotate_model(request: HttpRequest, model: str, body: Note) -> dict[str, Any]:
    """Set or clear the note on a version."""
    version = annotate_version(queries.get_model(model), description=body.description, actor=actor_of(request))
    return version_document(version)


@router.get("/{path:model}")
def get_model(request: HttpRequest, model: str) -> dict[str, Any]:
    """A named model with its versions, or one version."""
    reference = parse_reference(model)
    if reference.namespace and str(reference) == reference.artifact:
        return model_document(get_artifact("model", model))
    return version_document(queries.get_model(model))
