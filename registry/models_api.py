"""Routes of models."""

from ninja import Router

router = Router(tags=["registry"])
