"""What every API module shares: authentication, pages of a list, problem documents."""

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Schema
from ninja.security import HttpBearer, SessionAuth
from pydantic import ConfigDict, field_validator
from pydantic_core import PydanticCustomError

from optimize_site.kernel.auth import Actor, actor_of_token
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.text import is_unusable

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
UNUSABLE = "this holds a character that is no text; take out NUL characters and unpaired surrogates"


class Body(Schema):
    """A request body: unknown fields are refused by name, and so are texts that no database keeps and values of another
    kind, such as a number in quotes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _usable(cls, value: Any) -> Any:
        if any(is_unusable(text) for text in _texts(value)):
            raise PydanticCustomError("unusable_text", UNUSABLE)
        return value


def _texts(value: Any) -> Iterator[str]:
    """Every text inside a JSON value, keys too; however deep it nests."""
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            rest += [*item, *item.values()]
        elif isinstance(item, list):
            rest += item


class TokenAuth(HttpBearer):
    """`Authorization: Bearer TOKEN`; gives the token's actor."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor | None:
        return actor_of_token(token)


class BrowserAuth(SessionAuth):
    """A signed-in browser, with CSRF checked on every unsafe verb; a stranger is told to sign in first."""

    def _get_key(self, request: HttpRequest) -> str | None:
        return super()._get_key(request) if request.user.is_authenticated else None

    def authenticate(self, request: HttpRequest, key: str | None) -> Actor | None:
        user = request.user
        return Actor(user.get_username(), user.role, user.pk) if user.is_authenticated else None


AUTH = [TokenAuth(), BrowserAuth()]


def page(rows: QuerySet[Any] | list[Any], name: str, render: Callable[[Any], dict[str, Any]], *,
         limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """One page of a list: `{name: [...], "total", "limit", "offset"}`. Raises InvalidInput outside 1..100."""
    return page_of(rows, name, lambda found: [render(row) for row in found], limit=limit, offset=offset)


def page_of(rows: QuerySet[Any] | list[Any], name: str, render: Callable[[list[Any]], list[dict[str, Any]]], *,
            limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """The same, its rows rendered together: for those that share queries."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit is {limit}; it must be between 1 and {MAX_LIMIT}.", code="invalid_limit")
    if offset < 0:
        raise InvalidInput(f"offset is {offset}; it must not be negative.", code="invalid_offset")
    total = len(rows) if isinstance(rows, list) else rows.count()
    return {name: render(list(rows[offset:offset + limit])), "total": total, "limit": limit,
            "offset": offset}
