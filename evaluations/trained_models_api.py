"""Routes of models by their ID, as they were before they had names: what they came from, cost and scored."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from evaluations.queries import list_evaluations
from evaluations.trained_models import list_trained_models, trained_model_document, trained_model_row
from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.bodies import BYTES, body_chunks
from registry.model_queries import get_model
from registry.models import Version
from registry.models_api import descriptor_of
from registry.operations.adapters import register_adapter
from registry.operations.artifacts import annotate_version
from registry.operations.models import register_descriptor
from registry.schemas import Note

router = Router(tags=["trained-models"])


class Registration(Body):
    descriptor: dict[str, Any]


@router.get("")
def list_models(request: HttpRequest, workload: str = "", project: str = "", baseModel: str = "",
                baseModelId: str = "", limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Models, newest first: all, a workload's, a repository's with the base itself, or those trained from one base."""
    found = list_trained_models(workload=workload or project, base_model=baseModel, base_model_id=baseModelId)
    return page(found, "models", trained_model_row, limit=limit, offset=offset)


@router.post("", response={201: dict[str, Any]})
def register(request: HttpRequest, body: Registration) -> Status[dict[str, Any]]:
    """Register a base model from a descriptor, under its own name."""
    return Status(201, _whole(register_descriptor("", body.descriptor, actor=actor_of(request))))


@router.post("/adapter", response={201: dict[str, Any]}, openapi_extra=BYTES)
def register_sent_adapter(request: HttpRequest, descriptor: str) -> Status[dict[str, Any]]:
    """Register the adapter in the body, a ZIP, under its base model's name; `descriptor` is JSON."""
    version = register_adapter("", descriptor_of(descriptor), body_chunks(request), actor=actor_of(request))
    return Status(201, _whole(version))


@router.post("/{path:model}/annotate")
def annotate(request: HttpRequest, model: str, body: Note) -> dict[str, Any]:
    """Set or clear the note on a model."""
    return _whole(annotate_version(get_model(model), description=body.description, actor=actor_of(request)))


@router.get("/{path:model}")
def get(request: HttpRequest, model: str) -> dict[str, Any]:
    """One model by ID or name: configuration, lineage, what training it cost, every evaluation of it."""
    return _whole(get_model(model))


def _whole(version: Version) -> dict[str, Any]:
    return trained_model_document(version, list_evaluations(model=version, archived=True))
