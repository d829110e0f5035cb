"""What people write beside a piece of work: no part of its identity, of a bounded length."""

from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.text import is_unusable

MAX_NOTE = 10_000


def check_note(name: str, text: str | None, most: int = MAX_NOTE) -> None:
    """Raises InvalidInput for a text that is longer, or that no database keeps. None states nothing."""
    if text is not None and (len(text) > most or is_unusable(text)):
        raise InvalidInput(f"{name} has {len(text)} characters; it may have at most {most} and no NUL.",
                           code="wrong_length")
