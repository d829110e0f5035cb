"""What a row asks, in one form for texts that differ in case, spacing or composition only. Pure."""

import hashlib
import unicodedata

import orjson

from datasets.rows import Row, text_of


def prompt_of(row: Row) -> list[Row]:
    """The messages before a chat row's answer, or a pair's prompt."""
    return list(row["messages"][:-1] if "messages" in row else row["prompt"])


def prompt_key(row: Row) -> bytes:
    """What a row asks, as a digest."""
    asked = [[message["role"], plain(text_of(message.get("content"))), message.get("tool_calls") or []]
             for message in prompt_of(row)]
    return hashlib.sha256(orjson.dumps(asked)).digest()


def plain(text: str) -> str:
    """A text without what does not change what it asks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def asked_words(row: Row) -> list[str]:
    """The words that a row asks with: what anyone but the system says before the answer."""
    return [word for message in prompt_of(row) if message["role"] != "system"
            for word in plain(text_of(message.get("content"))).split()]
