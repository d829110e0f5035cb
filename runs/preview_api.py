"""Routes that show a run's first rows as tokens."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from optimize_site.kernel.auth import actor_of
from runs import queries
from runs.api import DESCRIPTOR, read_descriptor
from runs.operations.preview import ROWS, preview_descriptor, preview_run

router = Router(tags=["runs"])


@router.post("/preview", openapi_extra=DESCRIPTOR)
def preview_of_descriptor(request: HttpRequest, rows: int = ROWS) -> dict[str, Any]:
    """The first rows that a descriptor would train on, as tokens after truncation, each trained one marked.

    A row that the run would refuse or leave out says why. Submits nothing.
    """
    return preview_descriptor(read_descriptor(request), rows=rows, actor=actor_of(request))


@router.get("/{run_id}/preview")
def preview_of_run(request: HttpRequest, run_id: str, rows: int = ROWS) -> dict[str, Any]:
    """The first rows of a submitted run, as tokens under its own configuration."""
    return preview_run(queries.get_run(run_id), rows=rows, actor=actor_of(request))
