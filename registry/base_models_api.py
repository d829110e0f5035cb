"""Routes of base models. A base model is named by repository, entry ID, model ID or the beginning of an ID."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from optimize_site.kernel.api import MAX_LIMIT, page
from optimize_site.kernel.auth import actor_of
from registry import base_model_queries as queries
from registry.base_model_render import base_model_document, base_model_row
from registry.operations import base_models as operations

router = Router(tags=["base models"])


@router.get("")
def list_base_models(request: HttpRequest, all: bool = False, limit: int = MAX_LIMIT,
                     offset: int = 0) -> dict[str, Any]:
    """The selected base models; with `all`, every one that the box allows."""
    return page(queries.list_base_models(every=all), "models", base_model_row, limit=limit, offset=offset)


@router.post("/{path:base_model}/select", response={202: dict[str, Any]})
def select_base_model(request: HttpRequest, base_model: str) -> Status[dict[str, Any]]:
    """Ask for a base model to be prepared."""
    return Status(202, base_model_document(operations.select_base_model(base_model, actor=actor_of(request))))


@router.post("/{path:base_model}/deselect")
def deselect_base_model(request: HttpRequest, base_model: str) -> dict[str, Any]:
    """Back to allowed, not chosen."""
    return base_model_document(operations.deselect_base_model(base_model, actor=actor_of(request)))


@router.get("/{path:base_model}")
def get_base_model(request: HttpRequest, base_model: str) -> dict[str, Any]:
    """One base model: admission, selection, the runs admitted."""
    return base_model_document(queries.get_base_model(base_model))
