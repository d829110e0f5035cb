"""The balance of labels: which values the fields of answers take that are JSON objects, and how often.

Other answers count as values of the field "", which is a label too where there are few and short ones.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import Any

MOST_FIELDS = 64
# A field with more values than this is free text, not a label.
MOST_VALUES = 1000
LONGEST_VALUE = 80
SHOWN_VALUES = 20
SHORT_ANSWER = 1000
WHOLE = ""


class Labels:
    """Counts values by field, of one stretch of rows or of several merged in order."""

    def __init__(self) -> None:
        self._fields: dict[str, Counter[str]] = {}
        self._free: set[str] = set()

    def see(self, answer: str) -> None:
        """An answer's text."""
        # Short answers, which labels are, tend to be those of other rows too.
        found = _known_labels(answer) if len(answer) <= SHORT_ANSWER else _labels_in(answer)
        for name, label in found:
            self._add(name, label)

    def _add(self, name: str, label: str | None) -> None:
        if label is None or name in self._free or (name not in self._fields and len(self._fields) >= MOST_FIELDS):
            return
        if len(label) > LONGEST_VALUE:
            self._set_free(name)
            return
        values = self._fields.setdefault(name, Counter())
        values[label] += 1
        if len(values) > MOST_VALUES:
            self._set_free(name)

    def _set_free(self, name: str) -> None:
        self._fields.pop(name, None)
        self._free.add(name)

    def document(self) -> dict[str, Any]:
        """What `merge` takes."""
        return {"fields": {name: dict(values) for name, values in self._fields.items()}, "free": sorted(self._free)}

    def merge(self, other: dict[str, Any]) -> None:
        """Add the document of a later stretch."""
        for name in other["free"]:
            self._set_free(name)
        for name, values in other["fields"].items():
            if name in self._free or (name not in self._fields and len(self._fields) >= MOST_FIELDS):
                continue
            merged = self._fields.setdefault(name, Counter())
            merged.update(values)
            if len(merged) > MOST_VALUES:
                self._set_free(name)

    def report(self) -> list[dict[str, Any]]:
        """The fields by how many answers have them, each with its most frequent values."""
        fields = sorted(self._fields.items(), key=lambda item: (-item[1].total(), item[0]))
        return [
            {
                "field": name,
                "rows": values.total(),
                "distinct": len(values),
                "values": [
                    {"value": value, "rows": rows}
                    for value, rows in sorted(values.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_VALUES]
                ],
            }
            for name, values in fields
        ]


def _labels_in(answer: str) -> list[tuple[str, str | None]]:
    """Each field of an answer with its label; None for a value that is none."""
    value = _object(answer)
    if value is None:
        return [(WHOLE, answer.strip())]
    return [(name, _label(label)) for name, label in value.items()]


_known_labels = lru_cache(maxsize=4096)(_labels_in)


def _object(answer: str) -> dict[str, Any] | None:
    """The JSON object an answer is; None where it is none."""
    if not answer.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _label(value: Any) -> str | None:
    """A value as a label; None for what is none: an object or a list."""
    if isinstance(value, str):
        return value
    return None if isinstance(value, dict | list) else json.dumps(value)
