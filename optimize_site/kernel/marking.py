"""Marks where an answer differs from what was expected. Pure."""

import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
MAX_TOKENS = 2000


class Piece(NamedTuple):
    """A stretch of text, and whether both texts have it."""

    kind: Literal["same", "missing", "added"]
    text: str


def mark_difference(expected: str, answer: str) -> tuple[list[Piece], list[Piece]]:
    """The expected text with what the answer lacks marked, and the answer with what it adds; joined they are the texts.

    Very long texts are compared as wholes.
    """
    wanted, given = TOKENS.findall(expected), TOKENS.findall(answer)
    if max(len(wanted), len(given)) > MAX_TOKENS:
        same = expected == answer
        return [Piece("same" if same else "missing", expected)], [Piece("same" if same else "added", answer)]
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, wanted, given, autojunk=False).get_opcodes():
        left += _piece(tag == "equal", "missing", wanted[i1:i2])
        right += _piece(tag == "equal", "added", given[j1:j2])
    return left, right


def _piece(is_same: bool, otherwise: Literal["missing", "added"], tokens: list[str]) -> list[Piece]:
    """White space alone is no difference worth marking."""
    text = "".join(tokens)
    return [Piece("same" if is_same or not text.strip() else otherwise, text)] if text else []
