"""The report of an evaluation from its graded rows. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluations.graders.json_values import find_object, without_thoughts
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


def build_report(rows: Sequence[Graded], *, compares_texts: bool = True) -> dict[str, Any]:
    """Mean score with its interval, exact-match rate, accuracy per field lowest first, what was not scored and why.

    Unscored rows are left out of every rate and counted by cause. Lists keep an order that JSON objects would lose.
    Which label was taken for which is told of the fields that were judged; where whole texts were compared
    (`compares_texts`) and no field was judged, of the answers themselves.
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
        "verdicts": _verdicts(rows), "fields": _fields(scored),
        "confusion": _confusion(scored, compares_texts),
        "promptTokens": sum(row.prompt_tokens for row in rows),
        "completionTokens": sum(row.completion_tokens for row in rows),
    }


def _verdicts(rows: Sequence[Graded]) -> dict[str, int]:
    """How many rows were right, partly right, wrong and unscored."""
    counts = Counter(_verdict(row) for row in rows)
    return {name: counts[name] for name in ("right", "partly", "wrong", "unscored")}


def _verdict(row: Graded) -> str:
    if row.score is None:
        return "unscored"
    return "right" if row.is_exact else "partly" if row.score > 0 else "wrong"


def _fields(rows: Sequence[Graded]) -> list[dict[str, Any]]:
    asked: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for row in rows:
        asked.update(row.fields.keys())
        right.update(name for name, matches in row.fields.items() if matches)
    found = [{"field": name, "accuracy": right[name] / asked[name], "matched": right[name], "rows": asked[name]}
             for name in asked]
    return sorted(found, key=lambda item: (item["accuracy"], item["field"]))


def _confusion(rows: Sequence[Graded], compares_texts: bool) -> list[dict[str, Any]]:
    """For each field whose expected values are a few labels: how often each was answered by which.

    A field that has no name is the answer itself.
    """
    pairs: dict[str, Counter[tuple[str, str]]] = {}
    for row in rows:
        for name, wanted, given in _labels(row) if row.fields else _whole(row) if compares_texts else ():
            pairs.setdefault(name, Counter())[wanted, given] += 1
    return [_table(name, counts) for name, counts in pairs.items() if _are_labels(counts)]


def _labels(row: Graded) -> Iterator[tuple[str, str, str]]:
    wanted, given = find_object(row.expected) or {}, find_object(row.answer) or {}
    for name in row.fields:
        if name in wanted:
            yield name, _label(wanted[name]), _label(given[name]) if name in given else NOT_GIVEN


def _whole(row: Graded) -> Iterator[tuple[str, str, str]]:
    """What `exact` compared: a row that is right was answered by what was expected, however it was written."""
    wanted, given = row.expected.strip(), without_thoughts(row.answer).strip()
    yield "", wanted, wanted if row.is_exact else given or NOT_GIVEN


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
