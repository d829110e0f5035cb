"""The kinds of job that device workers run."""

from typing import Any

import datasets.work
import endpoints.work
import evaluations.work
import registry.work
import runs.work
from optimize_site.kernel.work import WorkKind

KINDS: dict[str, WorkKind] = {kind.kind: kind for kind in (
    *registry.work.KINDS, *datasets.work.KINDS, *runs.work.KINDS, *evaluations.work.KINDS, *endpoints.work.KINDS)}


def row_of(kind: str, pk: str) -> Any:
    """The piece of work that a lease or an attempt is for."""
    return KINDS[kind].get(pk)
