"""Routes of registered models. A version is named by `NS/NAME[:vN|:ALIAS]`, `NS/NAME@sha256:…`, or its model ID."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Router, Status

from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.bodies import BYTES, body_chunks
from optimize_site.kernel.downloads import download
from optimize_site.kernel.errors import InvalidInput
from registry import model_queries as queries
from registry.errors import MalformedDescriptor
from registry.model_render import adapter_zip, card_of, model_document, model_row, version_document, version_row
from registry.models import Artifact
from registry.named_routes import add_alias_routes
from registry.operations.adapters import register_adapter
from registry.operations.artifacts import annotate_version
from registry.operations.models import register_descriptor
from registry.queries import get_artifact, list_artifacts
from registry.references import parse_namespace, parse_reference
from registry.schemas import Note

router = Router(tags=["models"])
add_alias_routes(router, Artifact.Kind.MODEL)


class Registration(Body):
    descriptor: dict[str, Any]
    alias: str = ""


@router.get("")
def list_models(request: HttpRequest, namespace: str = "", project: str = "", archived: bool = False,
                limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Named models; `project` narrows as `namespace` does. Archived ones where they are asked for."""
    wanted = namespace or project
    models = list_artifacts("model", namespace=parse_namespace(wanted) if wanted else "", archived=archived)
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


@router.post("/{path:model}/versions", response={201: dict[str, Any]}, openapi_extra=BYTES)
def register_sent_adapter(request: HttpRequest, model: str, descriptor: str, alias: str = "") -> Status[dict[str, Any]]:
    """Register the adapter in the body, a ZIP of its configuration and weights; `descriptor` is JSON."""
    version = register_adapter(model, descriptor_of(descriptor), body_chunks(request), alias=alias,
                               actor=actor_of(request))
    return Status(201, version_document(version))


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
    """Register a base model's version from a descriptor."""
    version = register_descriptor(model, body.descriptor, alias=body.alias, actor=actor_of(request))
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


def descriptor_of(text: str) -> Any:
    """The descriptor that a query states as JSON. Raises MalformedDescriptor."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedDescriptor(f"The descriptor is not JSON: {error}.") from error
