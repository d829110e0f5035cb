"""Moving `champion`, for apps below evaluations: the registry asks, evaluations decides on the evidence."""

from typing import Any, Protocol

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import Unavailable


class Promoter(Protocol):
    """Who may move a workload's champion."""

    def promote(self, workload: Any, version: Any, *, actor: Actor, note: str = "", force: bool = False) -> Any:
        """Point `champion` of the workload at the model version, with its evidence. Raises Refused."""


_promoter: Promoter | None = None


def provide(promoter: Promoter) -> None:
    """Called once by the app that keeps evaluations."""
    global _promoter
    _promoter = promoter


def promote(workload: Any, version: Any, *, actor: Actor, note: str = "", force: bool = False) -> Any:
    """Move the workload's champion to the model version, or raise why not."""
    if _promoter is None:
        raise Unavailable("Nothing on this box can judge a promotion.")
    return _promoter.promote(workload, version, actor=actor, note=note, force=force)
