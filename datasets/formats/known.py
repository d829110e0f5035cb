"""Every format there is, by name, and those that are sent as a ZIP."""

from datasets.formats import ArchiveFormat
from datasets.formats.eval_items import EVAL_ITEMS
from datasets.formats.of_lines import ROW_FORMATS
from datasets.formats.prepared import PREPARED

ARCHIVE_FORMATS: tuple[ArchiveFormat, ...] = (EVAL_ITEMS, PREPARED)
"""The formats that are sent as a ZIP."""


def known_formats() -> list[str]:
    """Every format by name."""
    return sorted([*ROW_FORMATS, *(archive.name for archive in ARCHIVE_FORMATS)])
