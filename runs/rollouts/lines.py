"""The file in which a job hands over one update's completions: JSON lines, read strictly.

    {"group": 0, "index": 0, "row": 17, "prompt": [messages], "tools": null, "completion": "text", "tokens": 123,
     "finish": "stop", "score": 0.5, "advantage": 0.1, "excluded": false,
     "terms": [{"name": "exact", "score": 1.0, "share": 0.5, "cause": "", "explanation": ""}]}
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from optimize_site.kernel.text import UNUSABLE

LONGEST_NAME = 16


class TermLine(msgspec.Struct, kw_only=True):
    """What one term of the reward said: its score, and that times its weight; a cause where it failed."""

    name: str
    score: float | None
    share: float | None
    cause: str = ""
    explanation: str = ""


class RolloutLine(msgspec.Struct, kw_only=True):
    """One completion."""

    group: int
    index: int
    row: int
    prompt: list[dict[str, Any]]
    completion: str
    tokens: int
    finish: str
    score: float | None
    advantage: float | None = None
    excluded: bool = False
    tools: list[dict[str, Any]] | None = None
    terms: list[TermLine] = []

    @property
    def has_failed(self) -> bool:
        """Whether a term gave no verdict."""
        return any(term.cause for term in self.terms)


def read_rollouts(path: Path) -> list[RolloutLine]:
    """The completions of a file, characters replaced that no database keeps. Raises OSError, ValueError."""
    found = [_read(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    if len({(line.group, line.index) for line in found}) != len(found):
        raise ValueError("it holds two completions of one place in a group")
    return found


def _read(line: bytes) -> RolloutLine:
    try:
        return msgspec.convert(_kept(json.loads(line)), RolloutLine)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _kept(value: Any) -> Any:
    """The value with texts that a database keeps and numbers that JSON has."""
    if isinstance(value, str):
        return UNUSABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_kept(name): _kept(item) for name, item in value.items()}
    return [_kept(item) for item in value] if isinstance(value, list) else value


def asked_of(prompt: Sequence[Mapping[str, Any]]) -> str:
    """What a prompt asks: the text of its last message."""
    content = prompt[-1].get("content") if prompt else ""
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
