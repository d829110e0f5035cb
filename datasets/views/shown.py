"""What other pages show of datasets: a step of a new box, and what the search finds."""

from collections.abc import Iterator
from typing import Any

from django.urls import reverse

from datasets import queries
from datasets.views.addresses import address_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.feeds import Item, feed, finder
from optimize_site.kernel.ids import looks_like_id
from registry.models import Version
from registry.queries import find_version


def _item(artifact: Any) -> Item:
    return Item("Dataset", artifact.reference, reverse("datasets:detail", args=[artifact.namespace_id, artifact.name]),
                detail=f"{artifact.num_examples or 0:,} rows, v{artifact.newest_number}", at=artifact.newest_at)


@feed("checklist", 20)
def add_data(_: Any) -> Iterator[Item]:
    """The second step of a new box."""
    number = queries.list_datasets().count()
    detail = "Your examples as chat rows: what was asked, and the answer to learn. Keep some aside for judging."
    yield Item("", "Add data", reverse("datasets:list" if number else "datasets:upload"), is_done=bool(number),
               detail=f"{number} dataset{'s are' if number > 1 else ' is'} registered." if number else detail,
               action="Upload")


@finder
def datasets_named(text: str) -> Iterator[Item]:
    """Datasets by part of their name, or by the beginning of a version's ID or hash."""
    named = queries.list_datasets()
    wanted = text.lower().partition(":")[0]
    space, _, name = wanted.rpartition("/")
    found = named.filter(name__icontains=name, namespace__name__icontains=space) if space else named.filter(
        name__icontains=wanted) | named.filter(namespace__name__icontains=wanted)
    yield from map(_item, found[:10])
    if looks_like_id(text.lower()):
        version = _by_hash(text.lower())
        if version is not None:
            yield Item("Dataset", version.reference, address_of(version), at=version.created_at)


def _by_hash(text: str) -> Version | None:
    try:
        return find_version(queries.KIND, text)
    except OperationError:
        return None
