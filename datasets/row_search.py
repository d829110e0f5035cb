"""Whether a row says some words: consecutive words inside one message, whatever their case. Pure."""

import re

import orjson

from datasets.row_documents import texts_of

MIN_PREFILTER = 2
ESCAPE = b"\\u"


class Words:
    """Words to look for. Rows that cannot hold them are passed over without being parsed."""

    def __init__(self, text: str):
        self.words = " ".join(text.casefold().split())
        runs = re.findall(r"[a-z0-9]+", self.words)
        self._run = max(runs, key=len, default="").encode()

    def are_in(self, row: bytes) -> bool:
        """Whether one message of the row says the words, in this order with nothing but space between them."""
        return self._may_be_in(row) and any(self.words in " ".join(text.casefold().split())
                                            for text in texts_of(orjson.loads(row)))

    def _may_be_in(self, row: bytes) -> bool:
        """A quick look at the bytes. Letters beyond ASCII may fold into ASCII ones, and escapes may stand for any."""
        if len(self._run) < MIN_PREFILTER or self._run in row.lower():
            return True
        if row.isascii():
            return ESCAPE in row
        return ESCAPE in row or self._run in row.decode(errors="replace").casefold().encode()
