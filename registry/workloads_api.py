"""Routes of workloads; `projects` is another word for them."""

from ninja import Router


def make_router() -> Router:
    """A router with every workload route, to be mounted once a word."""
    return Router(tags=["workloads"])


router = make_router()
