"""Routes of base models."""

from ninja import Router

router = Router(tags=["registry"])
