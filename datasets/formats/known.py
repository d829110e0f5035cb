"""The formats there are, and which one a file is, told by its bytes."""

from collections.abc import Callable

import orjson

from datasets.formats import ArchiveFormat, RowExaminer
from datasets.formats.chat import ChatExaminer
from datasets.formats.eval_items import EVAL_ITEMS
from datasets.formats.preference import PairExaminer
from datasets.formats.prepared import PREPARED
from datasets.pairs import ANSWERS

ROW_FORMATS: dict[str, Callable[[int], RowExaminer]] = {ChatExaminer.format: ChatExaminer,
                                                        PairExaminer.format: PairExaminer}
"""For each format of lines, what makes an examiner, given how many of its first rows to compare for repeats."""

ARCHIVE_FORMATS: tuple[ArchiveFormat, ...] = (EVAL_ITEMS, PREPARED)
"""The formats that are sent as a ZIP."""


def format_of(line: bytes) -> str:
    """The format of lines that a file's first row is written in; chat where it shows none."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return ChatExaminer.format
    is_pair = isinstance(row, dict) and "messages" not in row and any(name in row for name in ANSWERS)
    return PairExaminer.format if is_pair else ChatExaminer.format


def known_formats() -> list[str]:
    """Every format by name."""
    return sorted([*ROW_FORMATS, *(archive.name for archive in ARCHIVE_FORMATS)])
