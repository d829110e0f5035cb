"""Routes of evaluations."""

from ninja import Router

router = Router(tags=["evaluations"])
