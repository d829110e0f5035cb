"""Routes of the registry: its limits, namespaces."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from datasets.upload_queries import limits
from optimize_site.kernel.api import DEFAULT_LIMIT, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.catalog import load_catalog
from registry import queries
from registry.garbage_render import garbage_document
from registry.operations import adapters, bundles, garbage, namespaces
from registry.references import PART
from registry.render import namespace_document
from registry.schemas import Collecting, Note

router = Router(tags=["registry"])


@router.get("/info")
def info(request: HttpRequest) -> dict[str, Any]:
    """What the registry takes: its limits, under `datasets`, `bundles` and `models`."""
    return {"area": "this box", "names": PART.pattern,
            "datasets": limits(),
            "bundles": {"maxBytes": bundles.limits().max_bytes, "maxUnpackedBytes": bundles.limits().max_unpacked_bytes,
                        "maxEntries": bundles.limits().max_entries},
            "models": {"maxBytes": adapters.limits().max_bytes, "maxAdapterRank": load_catalog().defaults.max_rank}}


@router.get("/garbage")
def list_garbage(request: HttpRequest) -> dict[str, Any]:
    """What a collection of garbage would remove."""
    return garbage_document(garbage.list_garbage(actor=actor_of(request)))


@router.post("/gc")
def collect_garbage(request: HttpRequest, body: Collecting) -> dict[str, Any]:
    """Remove what nothing refers to; with `dryRun` only say what that is."""
    work = garbage.list_garbage if body.dryRun else garbage.collect_garbage
    return garbage_document(work(actor=actor_of(request)))


@router.get("/namespaces")
def list_namespaces(request: HttpRequest, archived: bool = False, limit: int = DEFAULT_LIMIT,
                    offset: int = 0) -> dict[str, Any]:
    """Namespaces, with how much each holds; with `archived`, those too."""
    found = queries.list_namespaces(archived=archived)
    return page(found, "namespaces", namespace_document, limit=limit, offset=offset)


@router.get("/namespaces/{namespace}")
def get_namespace(request: HttpRequest, namespace: str) -> dict[str, Any]:
    """A namespace: its datasets, models and bundles by name."""
    return _whole(namespace)


@router.post("/namespaces/{namespace}/annotate")
def annotate_namespace(request: HttpRequest, namespace: str, body: Note) -> dict[str, Any]:
    """Set the note on a namespace."""
    namespaces.annotate_namespace(queries.get_namespace(namespace), description=body.description,
                                  actor=actor_of(request))
    return _whole(namespace)


@router.post("/namespaces/{namespace}/archive")
def archive_namespace(request: HttpRequest, namespace: str) -> dict[str, Any]:
    """Take a namespace whose work is finished out of the lists; nothing can be registered in it then."""
    namespaces.archive_namespace(queries.get_namespace(namespace), actor=actor_of(request))
    return _whole(namespace)


@router.post("/namespaces/{namespace}/unarchive")
def unarchive_namespace(request: HttpRequest, namespace: str) -> dict[str, Any]:
    """Bring an archived namespace back."""
    namespaces.unarchive_namespace(queries.get_namespace(namespace), actor=actor_of(request))
    return _whole(namespace)


def _whole(name: str) -> dict[str, Any]:
    namespace = queries.get_namespace(name)
    return namespace_document(namespace) | queries.names_in(namespace)
