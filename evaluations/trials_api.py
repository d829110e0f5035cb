"""Routes of trials: one input tried on a model."""

from ninja import Router

router = Router(tags=["evaluations"])
