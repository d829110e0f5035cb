"""Routes of the registry: its limits, namespaces."""

from ninja import Router

router = Router(tags=["registry"])
