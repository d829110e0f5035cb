"""Routes of runs."""

from ninja import Router

router = Router(tags=["runs"])
