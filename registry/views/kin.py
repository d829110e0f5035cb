"""A version's relatives as pages list them."""

from collections.abc import Iterable
from typing import Any

from registry.lineage import Kin

MOST_KIN = 50


def kin_rows(found: Iterable[Kin]) -> list[dict[str, Any]]:
    """The nearest of them, each with what `partials/kin.html` shows."""
    return [{"kind": kin.kind.replace("/", ", "), "reference": kin.reference, "version": kin.version,
             "depth": kin.depth, "artifact": kin.version.artifact.kind if kin.version is not None else ""}
            for kin in list(found)[:MOST_KIN]]
