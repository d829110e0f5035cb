"""Routes of the bare-name form: `datasets create|list|get|name`."""

from ninja import Router

router = Router(tags=["datasets"])
