"""What a row asks, in one form for texts that differ in case, spacing or composition only. Pure."""

import hashlib
import re
import string
import unicodedata
from functools import lru_cache

import orjson

from datasets.rows import Row, text_of

END_CHARACTERS = 500
LONGEST_WORD_BYTES = 24
"""Writing without spaces gives words that are longer than this on average: an analysis tells it in the same way."""
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
"""A character of Thai, Lao, Burmese, Khmer, Chinese or Japanese: a few of them are less than a long word."""
SIGNS = string.punctuation + "".join(sign for sign in map(chr, range(128, 0x3040))
                                     if unicodedata.category(sign).startswith("P"))
"""Around a word they do not change what is asked."""


def prompt_of(row: Row) -> list[Row]:
    """The messages before a chat row's answer, or a pair's prompt."""
    return list(row["messages"][:-1] if "messages" in row else row["prompt"])


def prompt_key(row: Row) -> bytes:
    """What a row asks, as a digest."""
    return Asked(row).key


class Asked:
    """What a row asks, each of its texts made plain once."""

    def __init__(self, row: Row) -> None:
        self._messages = prompt_of(row)
        self._texts = [text_of(message.get("content")) for message in self._messages]
        self._plain = [_plain_system(text) if message["role"] == "system" else plain(text)
                       for message, text in zip(self._messages, self._texts, strict=True)]

    @property
    def key(self) -> bytes:
        """All of it as a digest."""
        asked = [(message["role"], text, message.get("tool_calls") or [])
                 for message, text in zip(self._messages, self._plain, strict=True)]
        return hashlib.sha256(orjson.dumps(asked)).digest()

    def words(self) -> list[str]:
        """The words of it: what anyone but the system says before the answer, of a long message the ends.

        Signs around words are left out where anything else is asked; of writing without spaces each character is a
        word.
        """
        said = zip(self._messages, self._texts, self._plain, strict=True)
        asked = " ".join([text if len(written) <= 2 * END_CHARACTERS else plain(_ends(written))
                          for message, written, text in said if message["role"] != "system"])
        words = asked.split()
        if _is_unspaced(asked, len(words)):
            words = list("".join(words))
        bare = [word if word.isalnum() else word.strip(string.punctuation if word.isascii() else SIGNS)
                for word in words]
        return list(filter(None, bare)) or words


def plain(text: str) -> str:
    """A text without what does not change what it asks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_plain_system = lru_cache(maxsize=8)(plain)  # rows of one task share theirs


def _is_unspaced(text: str, num_words: int) -> bool:
    if text.isascii():
        return len(text) > LONGEST_WORD_BYTES * num_words
    return (len(text.encode(errors="replace")) > LONGEST_WORD_BYTES * num_words
            or len(UNSPACED.findall(text)) > num_words)


def _ends(text: str) -> str:
    return f"{text[:END_CHARACTERS]} {text[-END_CHARACTERS:]}"
