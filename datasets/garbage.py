"""What the datasets keep about bytes, once the bytes are gone; and analyses' folders without an analysis."""

from collections.abc import Iterator
from datetime import datetime

from datasets.models import Analysis, Image, Shard
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
