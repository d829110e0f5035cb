"""Routes of the bare-name form: `datasets create|list|get|name`."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from datasets import operations, queries, render
from datasets.schemas import NameTarget
from optimize_site.kernel.api import DEFAULT_LIMIT, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.bodies import BYTES, body_chunks, body_length
from registry.queries import resolve_version

router = Router(tags=["datasets"])


@router.get("")
def list_example_sets(request: HttpRequest, limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Every set of examples by its hash, newest first, with its names."""
    return page(queries.list_example_sets(), "datasets", render.example_set, limit=limit, offset=offset)


@router.post("", response={200: Any, 201: Any}, openapi_extra=BYTES)
def create(request: HttpRequest, name: str = "", images: str = "") -> Status[Any]:
    """Register the body under its hash, and under `name` where one is given."""
    done = operations.create_dataset(body_chunks(request), length=body_length(request), name=name, images=images,
                                     actor=actor_of(request))
    return Status(201 if done.is_new else 200, render.named(done.version) | {"isNew": done.is_new})


@router.put("/{path:dataset}")
def give_name(request: HttpRequest, dataset: str, body: NameTarget) -> dict[str, Any]:
    """Give a dataset a bare name, or move the name to it."""
    done = operations.name_dataset(dataset, body.dataset, actor=actor_of(request))
    return render.named(done.version)


@router.get("/{path:dataset}")
def get(request: HttpRequest, dataset: str) -> dict[str, Any]:
    """A dataset by hash, unique prefix, name or reference."""
    return render.named(resolve_version(queries.KIND, dataset))
