"""Versions and names of a dataset, what it came from, what came from it and what uses it, on its page."""

from typing import Any

from datasets.models import ExampleSet
from datasets.queries import example_sets
from optimize_site.kernel.feeds import items
from optimize_site.kernel.htmx import HtmxRequest
from registry.lineage import Kin, ancestors_of, descendants_of
from registry.models import AliasMove, Version
from registry.queries import list_aliases, list_versions

MOST_VERSIONS, MOST_MOVES, MOST_KIN = 200, 100, 60


def versions_tab(request: HtmxRequest, version: Version, examples: ExampleSet) -> dict[str, Any]:
    """Every version with what it holds, and where each alias points and pointed."""
    versions = list(list_versions(version.artifact)[:MOST_VERSIONS])
    held = example_sets(versions)
    moves = version.artifact.alias_moves.select_related("version").order_by("-pk")[:MOST_MOVES]
    return {"versions": [{"version": other, "examples": held[other.pk]} for other in versions],
            "aliases": list_aliases(version.artifact),
            "moves": [_move(move) for move in moves]}


def _move(move: AliasMove) -> dict[str, Any]:
    return {"name": move.name, "at": move.at, "actor": move.actor,
            "label": f"v{move.version.number}" if move.version is not None else ""}


def lineage_tab(request: HtmxRequest, version: Version, examples: ExampleSet) -> dict[str, Any]:
    """What the version came from, what came from it, and what uses it."""
    stated = {key: value for key, value in version.lineage.items() if key not in ("parents", "producedBy")}
    return {"ancestors": [_kin(kin) for kin in ancestors_of(version)[:MOST_KIN]],
            "descendants": [_kin(kin) for kin in descendants_of(version)[:MOST_KIN]],
            "stated": stated, "uses": items("uses", version)}


def _kin(kin: Kin) -> dict[str, Any]:
    return {"kind": kin.kind.replace("/", ", "), "reference": kin.reference, "version": kin.version,
            "artifact": kin.version.artifact.kind if kin.version is not None else ""}
