"""Text from outside: what can be kept of it, and what is safe to print of it."""

import re
from collections.abc import Iterable

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
UNUSABLE = re.compile("[\x00\ud800-\udfff]")


def is_unusable(text: str) -> bool:
    """Whether no database keeps the text: it holds a NUL, or half of a surrogate pair."""
    return UNUSABLE.search(text) is not None


def plain(text: str) -> str:
    """The text without terminal escapes and control characters; a progress line keeps only its last state."""
    lines = ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(CONTROLS.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in lines)


def written_path(parts: Iterable[str | int]) -> str:
    """A place in a document as every refusal writes it: `shards[0].bytes`."""
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return written.removeprefix(".")
