"""A collection of garbage as a document."""

from collections import Counter
from typing import Any

from optimize_site.kernel.garbage import Waste
from registry.operations.garbage import Collection


def garbage_document(collection: Collection) -> dict[str, Any]:
    """What went, or would go, largest first."""
    gone = [waste for waste in collection.found if waste not in collection.kept]
    return {"dryRun": collection.is_dry_run, "before": collection.before, "sizeBytes": collection.size_bytes,
            "counts": dict(Counter(waste.kind for waste in gone)), "keptMeanwhile": len(collection.kept),
            "items": [_item(waste) for waste in sorted(gone, key=lambda waste: -waste.size_bytes)]}


def _item(waste: Waste) -> dict[str, Any]:
    return {"kind": waste.kind, "name": waste.name, "sizeBytes": waste.size_bytes, "since": waste.since}
