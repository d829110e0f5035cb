"""The index by which a text is found among every rollout without reading each: trigrams, where the database has them.

Postgres offers them as an extension that comes with it. Where it is not installed, or may not be added by the box's
user, a search reads every rollout of the run, and says so.
"""

from typing import Any

from django.db import DatabaseError, connections, transaction

EXTENSION = "pg_trgm"
INDEX = "runs_rollout_texts"
# As `icontains` compares: in capitals. Prompts and completions in one index, since either may hold the text.
MAKE = (f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}",
        f"CREATE INDEX IF NOT EXISTS {INDEX} ON runs_rollout USING gin "
        "(upper(completion) gin_trgm_ops, upper(asked) gin_trgm_ops)")
SLOWLY = (f"This database cannot index texts, so a search over every update reads each rollout; with the extension "
          f"{EXTENSION} it would not. Once that is there, the box makes the index when it starts.")


def make_text_index(using: str = "default", **_: Any) -> bool:
    """Have the index made where it can be; whether it is there. Called after each start's migrations."""
    if has_text_index(using):
        return True
    try:
        with transaction.atomic(using=using), connections[using].cursor() as cursor:
            for statement in MAKE:
                cursor.execute(statement)
    except DatabaseError:
        return False
    return True


def has_text_index(using: str = "default") -> bool:
    """Whether texts are found by the index."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [INDEX])
        return cursor.fetchone()[0] is not None


def facts() -> dict[str, Any]:
    """What `info` tells of it."""
    is_there = has_text_index()
    return {"indexed": is_there, "note": "" if is_there else SLOWLY}
