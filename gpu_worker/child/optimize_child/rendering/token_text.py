"""The text that each token of a row stands for."""

from __future__ import annotations

from typing import Any

MOST_BYTES = 4


def pieces_of(tokenizer: Any, ids: list[int]) -> list[str]:
    """One text a token; together they are the row's text.

    A character of several tokens stands at the first of them, the others are empty. Each token is read after the one
    before it, because some tokenizers drop the space that begins a text.
    """
    pieces: list[str] = []
    before: list[int] = []
    while len(pieces) < len(ids):
        start = len(pieces)
        text, count = _whole_character(tokenizer, before, ids[start : start + MOST_BYTES])
        pieces += [text, *[""] * (count - 1)]
        before = ids[start : start + count]
    return pieces


def _whole_character(tokenizer: Any, before: list[int], ids: list[int]) -> tuple[str, int]:
    """The text of as few of the tokens as make whole characters, and how many those are; one, where none do."""
    head = len(_text(tokenizer, before))
    for count in range(1, len(ids) + 1):
        text = _text(tokenizer, [*before, *ids[:count]])[head:]
        if "\ufffd" not in text:
            return text, count
    return _text(tokenizer, [*before, ids[0]])[head:], 1


def _text(tokenizer: Any, ids: list[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) if ids else ""
    return text
