"""Whether a row says some words: consecutive words inside one message, whatever their case. Pure."""

import re

import orjson

from datasets.row_documents import texts_of

MIN_PREFILTER = 2
FOLDING = ("\u00df\u0130\u0149\u017f\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9a\u1e9e\u212a"
           "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06")
"""Letters beyond ASCII whose folded form has an ASCII letter."""
FOLDING_BYTES = [letter.encode() for letter in FOLDING]
ASCII = bytes(range(128))


def _escape_of(letter: str) -> bytes:
    """A pattern of the four digits that an escape writes a letter with."""
    return b"".join(b"[%c%c]" % (digit.lower().encode(), digit.upper().encode()) for digit in f"{ord(letter):04x}")


ESCAPES = re.compile(rb"\\u(?:00(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])|%s)" % b"|".join(map(_escape_of, FOLDING)))
"""Escapes that stand for an ASCII letter or digit, or for a letter that folds into one."""


def may_hide(data: bytes) -> bool:
    """Whether UTF-8 JSON holds something that stands for an ASCII letter or digit without looking like it."""
    if b"\\u" in data and ESCAPES.search(data):
        return True
    if data.isascii():
        return False
    beyond = data.translate(None, ASCII)
    return any(letter in beyond for letter in FOLDING_BYTES)


class Words:
    """Words to look for. Bytes that cannot hold them are passed over without being parsed."""

    def __init__(self, text: str):
        self.words = " ".join(text.casefold().split())
        runs = re.findall(r"[a-z0-9]+", self.words)
        self._run = max(runs, key=len, default="").encode()

    def are_in(self, row: bytes) -> bool:
        """Whether one message of the row says the words, in this order with nothing but space between them."""
        return self.may_be_in(row) and any(self.words in " ".join(text.casefold().split())
                                            for text in texts_of(orjson.loads(row)))

    def may_be_in(self, data: bytes) -> bool:
        """A quick look at the bytes of one row or of many: whether the longest run of plain letters is there, or
        anything that may stand for one."""
        return len(self._run) < MIN_PREFILTER or self._run in data.lower() or may_hide(data)
