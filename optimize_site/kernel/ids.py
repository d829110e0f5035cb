"""IDs of 64 hex digits, and finding a row by a name or an unambiguous prefix."""

import hashlib
import re
import secrets
from typing import TypeVar

from django.db.models import Model, QuerySet

from optimize_site.kernel.errors import AmbiguousPrefix, NotFound

Row = TypeVar("Row", bound=Model)
HEX = re.compile(r"[0-9a-f]{1,64}")
SHOWN = 12


def new_id() -> str:
    """A random ID."""
    return secrets.token_hex(32)


def derived_id(*parts: str) -> str:
    """The ID that the same parts always give; the parts are kept apart by NUL."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def looks_like_id(text: str) -> bool:
    """Whether a text could be an ID or its prefix of at least eight digits."""
    return len(text) >= 8 and HEX.fullmatch(text) is not None


def find_by_prefix(rows: QuerySet[Row], text: str, *, noun: str) -> Row:
    """The one row whose `id` begins with `text`. Raises NotFound, or AmbiguousPrefix naming the matches."""
    if HEX.fullmatch(text) is None:
        raise NotFound(f"There is no {noun} {text!r}.", hint="An ID is 64 hex digits, or the first few of them.")
    matches = list(rows.filter(pk__startswith=text)[:4])
    if not matches:
        raise NotFound(f"There is no {noun} {text!r}.", hint="List them to see their IDs.")
    if len(matches) > 1:
        shown = ", ".join(str(row.pk)[:SHOWN] for row in matches)
        raise AmbiguousPrefix(f"{text!r} begins several IDs: {shown}.", hint="Give more digits.")
    return matches[0]
