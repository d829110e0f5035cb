"""Finding JSON in what a model said, and comparing it. Reasoning between <think> tags is not part of an answer."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .rule import MAX_TEXT

FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
MAX_DEPTH, MAX_OPENERS = 200, 2000
NOTHING = object()
"""Where no JSON was found; None is a JSON value."""


def without_thoughts(text: str) -> str:
    """What was said, without the reasoning before it."""
    return THOUGHT.sub("", text[:MAX_TEXT])


def same_json(one: Any, other: Any) -> bool:
    """Equality of JSON values: numbers by value, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def find_object(text: str) -> dict[str, Any] | None:
    """The JSON object a text holds: all of it, else the first in a code fence, else the first in its prose."""
    found = _find(text, (dict,), "{")
    return found if isinstance(found, dict) else None


def find_value(text: str) -> Any:
    """The JSON value a text holds: all of it, else what a code fence holds, else the first object or list in its prose.

    NOTHING where there is none.
    """
    return _find(text, (dict, list, str, int, float, bool, type(None)), "{[")


def _find(text: str, kinds: tuple[type, ...], openers: str) -> Any:
    text = without_thoughts(text)
    for part in (text, *FENCE.findall(text)):
        whole = _read(part.strip())
        if whole is not NOTHING and isinstance(whole, kinds):
            return whole
    return next((found for found in _in_prose(text, openers) if isinstance(found, kinds)), NOTHING)


def _in_prose(text: str, openers: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    for start in islice(re.finditer(f"[{re.escape(openers)}]", text), MAX_OPENERS):
        try:
            found, _ = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        if not is_deep(found):
            yield found


def _read(text: str) -> Any:
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return NOTHING
    return NOTHING if is_deep(found) else found


def is_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether a JSON value nests deeper than anything that compares it can follow."""
    level = [value]
    for _ in range(limit):
        level = [item for one in level if isinstance(one, dict | list)
                 for item in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return True


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
