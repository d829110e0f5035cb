"""Routes of judges: models held on devices to grade answers. They come and go with the work that needs them."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from endpoints import queries
from endpoints.render import judge_document
from optimize_site.kernel.api import DEFAULT_LIMIT, page

router = Router(tags=["judges"])


@router.get("")
def list_judges(request: HttpRequest, phase: str = "", heldFor: str = "", limit: int = DEFAULT_LIMIT,
                offset: int = 0) -> dict[str, Any]:
    """Judges, newest first; `phase=open` is all that are not given back yet, `heldFor` a run's or an evaluation's ID or
    the beginning of one."""
    found = queries.list_judges(phase=phase, held_for=heldFor)
    return page(found, "judges", judge_document, limit=limit, offset=offset)


@router.get("/{judge}")
def get_judge(request: HttpRequest, judge: str) -> dict[str, Any]:
    """Where a judge is on its way, for whom it is held, the memory it takes, and what befell it last."""
    return judge_document(queries.get_judge(judge))
