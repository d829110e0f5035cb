"""What a row asks, in one form for texts that differ in case, spacing or composition only. Pure."""

import hashlib
import unicodedata
from functools import lru_cache

import orjson

from datasets.rows import Row, text_of

END_CHARACTERS = 500


def prompt_of(row: Row) -> list[Row]:
    """The messages before a chat row's answer, or a pair's prompt."""
    return list(row["messages"][:-1] if "messages" in row else row["prompt"])


def prompt_key(row: Row) -> bytes:
    """What a row asks, as a digest."""
    asked = [(message["role"], _plain_content(message), message.get("tool_calls") or []) for message in prompt_of(row)]
    return hashlib.sha256(orjson.dumps(asked)).digest()


def _plain_content(message: Row) -> str:
    text = text_of(message.get("content"))
    return _plain_system(text) if message["role"] == "system" else plain(text)


def plain(text: str) -> str:
    """A text without what does not change what it asks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_plain_system = lru_cache(maxsize=8)(plain)  # rows of one task share theirs


def asked_words(row: Row) -> list[str]:
    """The words that a row asks with: what anyone but the system says before the answer, of a long message the ends."""
    return [word for message in prompt_of(row) if message["role"] != "system"
            for word in plain(_ends(text_of(message.get("content")))).split()]


def _ends(text: str) -> str:
    return text if len(text) <= 2 * END_CHARACTERS else f"{text[:END_CHARACTERS]} {text[-END_CHARACTERS:]}"
