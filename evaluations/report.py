"""The report of an evaluation from its graded rows. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluations.graders import find_object
from evaluations.statistics import mean, mean_interval

MAX_LABELS = 12
MAX_LABEL_LENGTH = 60
NOT_GIVEN, ANOTHER = "(none)", "(other)"


@dataclass(frozen=True)
class Graded:
    """One row's verdict, with the texts it was made from."""

    expected: str
    answer: str
    score: float | None
    is_exact: bool | None
    fields: Mapping[str, bool]
    cause: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


def build_report(rows: Sequence[Graded]) -> dict[str, Any]:
    """Mean score with its interval, exact-match rate, accuracy per field lowest first, what was not scored and why.

    Unscored rows are left out of every rate and counted by cause. Lists keep an order that JSON objects would lose.
    """
    scored = [row for row in rows if row.score is not None]
    scores = [row.score for row in scored if row.score is not None]
    causes = Counter(row.cause or "unknown" for row in rows if row.score is None)
    interval = mean_interval(scores)
    return {
        "rows": len(rows), "scored": len(scored),
        "unscored": {"total": len(rows) - len(scored), "causes": dict(sorted(causes.items()))},
        "meanScore": mean(scores) if scores else None, "interval": list(interval) if interval else None,
        "exactMatchRate": mean([float(bool(row.is_exact)) for row in scored]) if scored else None,
        "fields": _fields(scored), "confusion": _confusion(scored),
        "promptTokens": sum(row.prompt_tokens for row in rows),
        "completionTokens": sum(row.completion_tokens for row in rows),
    }


def _fields(rows: Sequence[Graded]) -> list[dict[str, Any]]:
    asked: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for row in rows:
        asked.update(row.fields.keys())
        right.update(name for name, matches in row.fields.items() if matches)
    found = [{"field": name, "accuracy": right[name] / asked[name], "matched": right[name], "rows": asked[name]}
             for name in asked]
    return sorted(found, key=lambda item: (item["accuracy"], item["field"]))


def _confusion(rows: Sequence[Graded]) -> list[dict[str, Any]]:
    """For each field whose expected values are a few labels: how often each was answered by which."""
    pairs: dict[str, Counter[tuple[str, str]]] = {}
    for row in rows:
        given = find_object(row.answer) or {}
        for name, value in (find_object(row.expected) or {}).items():
            pairs.setdefault(name, Counter())[_label(value), _label(given[name]) if name in given else NOT_GIVEN] += 1
    return [_table(name, counts) for name, counts in pairs.items() if _are_labels(counts)]


def _are_labels(counts: Counter[tuple[str, str]]) -> bool:
    expected = {wanted for wanted, _ in counts}
    return len(expected) <= MAX_LABELS and all(len(label) <= MAX_LABEL_LENGTH for label in expected)


def _table(name: str, counts: Counter[tuple[str, str]]) -> dict[str, Any]:
    labels = sorted({wanted for wanted, _ in counts})
    folded: Counter[tuple[str, str]] = Counter()
    for (wanted, given), count in counts.items():
        folded[wanted, given if given in labels or given == NOT_GIVEN else ANOTHER] += count
    columns = labels + [label for label in (ANOTHER, NOT_GIVEN) if any(given == label for _, given in folded)]
    return {"field": name, "labels": labels, "columns": columns,
            "counts": [[folded[wanted, given] for given in columns] for wanted in labels]}


def _label(value: Any) -> str:
    if isinstance(value, str):
        return value
    return {True: "true", False: "false", None: "null"}.get(value, str(value)) if not isinstance(value, dict | list) \
        else "(nested)"
