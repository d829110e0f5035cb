"""Routes of named datasets and their versions."""

from ninja import Router

router = Router(tags=["datasets"])
