"""The formats of lines, and which one a file is, told by its first row: all that looking at rows needs."""

from collections.abc import Callable

import orjson

from datasets.formats import RowExaminer
from datasets.formats.chat import ChatExaminer
from datasets.formats.preference import PairExaminer
from datasets.pairs import ANSWERS

ROW_FORMATS: dict[str, Callable[[int], RowExaminer]] = {ChatExaminer.format: ChatExaminer,
                                                        PairExaminer.format: PairExaminer}
"""For each format of lines, what makes an examiner, given how many of its first rows to compare for repeats."""


def format_of(line: bytes) -> str:
    """The format of lines that a file's first row is written in; chat where it shows none."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return ChatExaminer.format
    is_pair = isinstance(row, dict) and "messages" not in row and any(name in row for name in ANSWERS)
    return PairExaminer.format if is_pair else ChatExaminer.format
