"""Routes of the rows of a dataset's version, and of what they share with another's."""

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from datasets import overlaps
from datasets.formats.prepared import FORMAT as PREPARED
from datasets.queries import KIND, example_set
from datasets.row_pages import read_page
from datasets.row_tokens import add_tokens
from datasets.stored_rows import row_at
from optimize_site.kernel.downloads import download
from registry.models import Version
from registry.queries import get_artifact, get_version, resolve_version

router = Router(tags=["datasets"])


def _version(namespace: str, name: str, version: str) -> Version:
    return get_version(get_artifact(KIND, f"{namespace}/{name}"), version)


@router.get("/{namespace}/{name}/versions/{version}/rows")
def rows(request: HttpRequest, namespace: str, name: str, version: str, offset: int = 0, limit: int = 25,
         search: str = "", model: str = "") -> dict[str, Any]:
    """Rows by position, or those of which one message says the words of `search`; `nextOffset` is where to go on.

    A page answers within about a second: a search over much data may give an empty page and the place to go on from.
    With `model`, each row's tokens under a base model that the dataset was analysed under. A row of more than 64 KiB is
    cut (`isCut`); its own route has its bytes.
    """
    found = _version(namespace, name, version)
    page = read_page(found, offset=offset, limit=limit, search=search)
    source = add_tokens(found, example_set(found), page["rows"], model)
    return {"reference": found.reference, "format": found.format} | page | {"tokens": source}


@router.get("/{namespace}/{name}/versions/{version}/rows/{position}")
def row_bytes(request: HttpRequest, namespace: str, name: str, version: str, position: int) -> StreamingHttpResponse:
    """One row's bytes as they are stored, whole; a row of prepared tokens as JSON."""
    found = _version(namespace, name, version)
    row = row_at(example_set(found), position)
    kind = "json" if example_set(found).format == PREPARED else "jsonl"
    return download(request, iter([row.data]), name=f"{name}-v{found.number}-row-{position}.{kind}",
                    size=len(row.data), content_type="application/json")


@router.get("/{namespace}/{name}/versions/{version}/overlap")
def overlap(request: HttpRequest, namespace: str, name: str, version: str, other: str) -> dict[str, Any]:
    """Which of its rows ask what a row of `other`, a dataset to judge by, asks: exactly, or nearly.

    Each request compares for about a second and goes on where the one before stopped; ask again until
    `coverage.isOver`. What was compared stays known.
    """
    return overlaps.compare(_version(namespace, name, version), resolve_version(KIND, other, namespace=namespace))
