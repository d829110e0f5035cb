"""What the datasets keep about bytes, once the bytes are gone; and files in the state folder that nobody reads."""

from collections.abc import Iterator
from datetime import datetime

from datasets.models import Analysis, ExampleSet, Image, Shard
from datasets.overlaps import NAMED_BY, is_wanted, overlaps_folder
from datasets.stored_rows import forget_indexes
from optimize_site.kernel.conf import home
from optimize_site.kernel.garbage import Waste, old_folders

NOTES = ("datasets.Shard", "datasets.Image")
"""Tables that describe bytes and keep none alive."""


def forget_bytes(sha256: str) -> None:
    """Drop what was noted about bytes that are being removed."""
    Shard.objects.filter(pk=sha256).delete()
    Image.objects.filter(pk=sha256).delete()
    forget_indexes([sha256])


def unknown_analyses(before: datetime) -> Iterator[Waste]:
    """Folders of analyses that there are not."""
    known = set(Analysis.objects.values_list("pk", flat=True))
    yield from old_folders("analysis folder", home() / "analyses", before, is_used=lambda path: path.name in known)


def stale_overlaps(before: datetime) -> Iterator[Waste]:
    """What comparing two datasets found of examples that there are not, or was never brought to its end."""
    known = {content_hash[:NAMED_BY] for content_hash in ExampleSet.objects.values_list("pk", flat=True)}
    yield from old_folders("overlap", overlaps_folder(), before, is_used=lambda path: is_wanted(path, known))
