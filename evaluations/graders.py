"""Grading answers: `json-label-match`. Pure: no rows, no clock.

A grader answers with a Verdict. A wrong answer is a zero; a grader that cannot judge a row leaves it unscored.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_TEXT = 200_000
FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True)
class Verdict:
    """What a grader says of one answer. `score` is None where it could not judge, and `cause` then says why."""

    score: float | None
    is_exact: bool | None = None
    fields: Mapping[str, bool] = field(default_factory=dict)
    explanation: str = ""
    cause: str = ""


def match_labels(answer: str, expected: str) -> Verdict:
    """Field by field, whether the JSON object in the answer equals the one in the expected answer.

    The score is the share of expected fields that match. An answer without a JSON object scores zero; an expected
    answer without one, or without fields, cannot be judged by.
    """
    wanted = find_object(expected)
    if wanted is None:
        return Verdict(None, cause="expected_without_json", explanation="The expected answer holds no JSON object.")
    if not wanted:
        return Verdict(None, cause="expected_without_fields", explanation="The expected JSON object has no fields.")
    given = find_object(answer)
    if given is None:
        return Verdict(0.0, False, dict.fromkeys(wanted, False), "The answer holds no JSON object.")
    fields = {name: name in given and same_json(given[name], value) for name, value in wanted.items()}
    return Verdict(sum(fields.values()) / len(fields), all(fields.values()) and len(given) == len(wanted), fields,
                   _explain(fields, given))


def _explain(fields: Mapping[str, bool], given: Mapping[str, Any]) -> str:
    wrong = [name for name, matches in fields.items() if not matches]
    missing = [name for name in wrong if name not in given]
    extra = [name for name in given if name not in fields]
    parts = [f"{label}: {', '.join(names)}" for label, names in
             (("differs", [name for name in wrong if name in given]), ("missing", missing), ("not asked for", extra))
             if names]
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


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
    """The JSON object a text holds: all of it, else the first in a code fence, else the first in its prose.

    Reasoning between <think> tags is not part of the answer.
    """
    text = THOUGHT.sub("", text[:MAX_TEXT])
    for part in (text, *FENCE.findall(text)):
        whole = _read(part.strip())
        if whole is not None:
            return whole
    return _first_in_prose(text)


def _first_in_prose(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        if isinstance(found, dict):
            return found
    return None


def _read(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
