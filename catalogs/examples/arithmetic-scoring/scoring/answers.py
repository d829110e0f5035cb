"""Reading the number that an answer states."""

import json
import re
from decimal import Decimal
from pathlib import Path

UNITS = json.loads((Path(__file__).parent / "tables" / "units.json").read_text(encoding="utf-8"))
"""Signs that may stand around a number and do not change it."""
LINE = re.compile(r"^#### *(.+?) *$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def stated(text):
    """The number of the last line `#### NUMBER`, or None."""
    lines = LINE.findall(text)
    return number(lines[-1]) if lines else None


def number(written):
    """`1,234.50 $` as the decimal 1234.5; None for what is no number."""
    for sign in UNITS:
        written = written.replace(sign, "")
    written = written.strip()
    return Decimal(written).normalize() if NUMBER.fullmatch(written) else None


def count(text):
    """How many lines begin with ####."""
    return len(LINE.findall(text))


def is_last(text):
    """Whether the last line states a number."""
    lines = LINE.findall(text.strip().rpartition("\n")[2])
    return bool(lines) and number(lines[0]) is not None
