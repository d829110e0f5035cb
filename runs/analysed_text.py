"""What an analysis found of a run's rows, as lines for people: the command and the plan say the same. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from optimize_site.kernel.ids import SHOWN

Row = tuple[str, Any]
FEW = 5
POLICIES = ("default", "all")


def analysed_rows(found: Mapping[str, Any] | None) -> Iterator[Row]:
    """Near-duplicates, labels, languages and tokens after how much was read, or why they are not known."""
    if found is None:
        return
    if found["status"] != "done":
        command = f" Count them with `{found['command']}`." if found["command"] else ""
        yield "Analysis", f"{found['note']}{command}"
        return
    coverage = found["coverage"]
    read = coverage["note"] or f"all {coverage['read']:,} examples"
    yield "Analysis", f"{read}, by the analysis {found['analysisId'][:SHOWN]} under {found['baseModel']}"
    yield "Near-duplicates", _near_words(found["duplicates"])
    yield from ((_name(label), label_words(label)) for label in found["labels"][:FEW])
    if found["languages"]["found"]:
        said = ", ".join(f"{one['language']} {one['rows']:,}" for one in found["languages"]["found"][:FEW])
        yield "Languages", f"{said}. {found['languages']['note']}"
    yield "Tokens", _token_words(found["tokens"])


def label_words(label: Mapping[str, Any]) -> str:
    """`billing 95 (95%), other 5 (5%). Uneven: the most frequent comes 19 times as often as the least frequent.`"""
    values = ", ".join(f"{one['value']} {one['rows']:,} ({one['rows'] / max(1, label['rows']):.0%})"
                       for one in label["values"][:FEW])
    more = ", …" if len(label["values"]) > FEW else ""
    return " ".join(filter(None, [f"{values}{more}.", _uneven_words(label), label["note"]]))


def _uneven_words(label: Mapping[str, Any]) -> str:
    if not label["isUneven"]:
        return ""
    if label["ratio"] is None:
        return "Uneven: it is the only value."
    return f"Uneven: the most frequent comes {label['ratio']:g} times as often as the least frequent."


def _name(label: Mapping[str, Any]) -> str:
    return f"Answers: {label['field']}" if label["field"] else "Answers"


def _near_words(found: Mapping[str, Any]) -> str:
    first = ", ".join(f"row {pair['position']:,} ≈ {pair['sameAs']:,}" for pair in found["firstNear"][:FEW])
    places = f" ({first}{', …' if found['near'] > len(found['firstNear'][:FEW]) else ''})" if first else ""
    exact = f", and {found['exact']:,} that render as an earlier one does" if found["exact"] else ""
    number = f"{found['near']:,}" if found["near"] else "none"
    return f"{number}{places}{exact}. {found['note']}"


def _token_words(tokens: Mapping[str, Any]) -> str:
    total, default, every = (f"{number:,}" for number in (tokens["total"], *map(tokens["trained"].get, POLICIES)))
    return (f"{total} an epoch, of them {default} trained by default and {every} with assistantTurns: all. The time "
            "and cost that follow stand under the estimates.")
