"""Pages of a list for the templates."""

from typing import Any

from django.http import HttpRequest

LIMIT = 50


def listed(request: HttpRequest, rows: Any, *, limit: int = LIMIT, total: int | None = None) -> dict[str, Any]:
    """The rows of the page that `?offset=` asks for, and what the pager needs to know."""
    found = len(rows) if isinstance(rows, list) else None
    total = total if total is not None else (found if found is not None else rows.count())
    offset = whole(request.GET.get("offset"), most=max(0, total - 1))
    shown = list(rows[offset:offset + limit])
    return {"rows": shown, "total": total, "limit": limit, "offset": offset, "first": offset + 1,
            "last": offset + len(shown), "next": offset + limit, "previous": max(0, offset - limit) or None}


def wants_archived(request: HttpRequest) -> bool:
    """Whether a list is asked to show archived rows too."""
    return request.GET.get("archived") == "yes"


def whole(text: str | None, *, least: int = 0, most: int = 10**9, default: int = 0) -> int:
    """A whole number of a query string, brought into range; nonsense is the default."""
    try:
        number = int(text or default)
    except ValueError:
        number = default
    return min(max(number, least), most)
