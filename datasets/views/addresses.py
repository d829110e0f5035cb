"""Where the pages of datasets are."""

from typing import Any

from django.http import QueryDict
from django.urls import reverse

from registry.models import Version


def address_of(version: Version, **query: Any) -> str:
    """The page of a dataset's version; `query` says which part of it."""
    asked = QueryDict(mutable=True)
    asked.update({"version": f"v{version.number}"} | {key: str(value) for key, value in query.items()})
    page = reverse("datasets:detail", args=[version.artifact.namespace_id, version.artifact.name])
    return f"{page}?{asked.urlencode()}"
