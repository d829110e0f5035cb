"""Regular expressions over texts that a model wrote, with a limit on what they may cost.

A pattern can take exponential time on an unlucky text. The limit is processor time, so a busy machine does not change
a verdict. What the limit stops is not decided: it is unscored, never a mismatch.
"""

import re
from typing import Any

import regex

from .rule import BadGrader

SECONDS = 1.0
MAX_PATTERN, MAX_SIZE = 1000, 10_000
PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d*)(?:,(\d*))?\}|.", re.DOTALL)


class TooSlow(Exception):
    """A pattern did not come to an end on a text within its limit."""


def compile_pattern(text: str, *, path: str = "pattern", ignore_case: bool = False) -> Any:
    """The compiled pattern. Raises BadGrader for one that does not parse, or that is large once written out."""
    if len(text) > MAX_PATTERN or _written_out(text) > MAX_SIZE:
        raise BadGrader(f"The pattern {text[:60]!r} repeats too much: written out it has more than {MAX_SIZE} parts.",
                        path=path, hint="Take smaller numbers of repetitions, or * and +.")
    try:
        return regex.compile(text, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        reason = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        raise BadGrader(f"The pattern {text[:60]!r} does not parse: {reason}.", path=path,
                        hint="Patterns are written as in Python; (?i) and the like go at the beginning.") from error


def _written_out(text: str) -> int:
    """How many parts the pattern has once its counted repetitions are written out; never less than it really has."""
    totals, last = [0], 0
    for piece in PIECES.finditer(text):
        word = piece.group()
        if word == "(":
            totals.append(0)
        elif word == ")" and len(totals) > 1:
            last = totals.pop() + 1
            totals[-1] += last
        elif piece.group(1) or piece.group(2):
            count = max(int(number[:9]) for number in (piece.group(1), piece.group(2)) if number)
            totals[-1] += last * max(count - 1, 0)
            last *= max(count, 1)
        else:
            last = 1
            totals[-1] += 1
    return sum(totals)


class Patience:
    """The processor time that the patterns of one row may take together."""

    def __init__(self, seconds: float = SECONDS):
        self.left = seconds

    def search(self, pattern: Any, text: str, *, whole: bool = False) -> Any:
        """The match or None. Raises TooSlow."""
        find = pattern.fullmatch if whole else pattern.search
        try:
            return find(text, timeout=self.left)
        except TimeoutError as error:
            raise TooSlow from error
