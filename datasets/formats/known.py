"""The formats there are, and which one a file is, told by its bytes."""

from collections.abc import Callable

from datasets.formats import ArchiveFormat, RowExaminer
from datasets.formats.chat import ChatExaminer

ROW_FORMATS: dict[str, Callable[[int], RowExaminer]] = {ChatExaminer.format: ChatExaminer}
"""For each format of lines, what makes an examiner, given how many of its first rows to compare for repeats."""

ARCHIVE_FORMATS: tuple[ArchiveFormat, ...] = ()
"""The formats that are sent as a ZIP."""


def format_of(line: bytes) -> str:
    """The format of lines that a file's first row is written in; chat where it shows none."""
    return ChatExaminer.format


def known_formats() -> list[str]:
    """Every format by name."""
    return sorted([*ROW_FORMATS, *(archive.name for archive in ARCHIVE_FORMATS)])
