"""What an analysis of the training rows found that a person should look at, as a dry run tells it. Pure.

Each finding comes with a note: how it was found, and what it says nothing of. None of them stands in the way of a run.
"""

from collections.abc import Mapping
from typing import Any

from runs.diagnostics import LISTED, coverage

NEAR = "An estimate; rows of fewer than eight words were not compared."
GUESSED = "A guess by the script and by common words."
UNEVEN = 10
"""From so many times as often as the least frequent value on, the most frequent one makes a field uneven."""
SHOWN_VALUES = 20
"""How many values of a field an analysis lists."""


def not_analysed(status: str, base_model: str, command: str | None) -> dict[str, Any]:
    """What stands there where no analysis is done: what is therefore not known, and what would tell."""
    return {"status": status, "note": f"No analysis of these rows under {base_model} is done: their near-duplicates, "
            "labels, languages and tokens are not known.", "command": command}


def analysed(report: Mapping[str, Any], *, analysis_id: str, base_model: str, num_examples: int) -> dict[str, Any]:
    """The findings of an analysis's report; `coverage` says how many of all rows they are of."""
    return {"status": "done", "note": "", "command": None, "analysisId": analysis_id, "baseModel": base_model,
            "coverage": coverage(int(report["rows"]), num_examples),
            "duplicates": _duplicates(report.get("duplicates") or {}),
            "labels": [_label(field) for field in report.get("labels") or []],
            "languages": {"found": list(report.get("languages") or []), "note": GUESSED},
            "tokens": {"total": report["totalTokens"], "trained": dict(report["trainedTokens"])}}


def _duplicates(found: Mapping[str, Any]) -> dict[str, Any]:
    first = [{"position": pair["row"], "sameAs": pair["of"]["row"]} for pair in found.get("examples") or []
             if pair["kind"] == "near"]
    return {"exact": found.get("exact") or 0, "near": found.get("near") or 0, "firstNear": first[:LISTED], "note": NEAR}


def _label(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field of the answers with its values, the most frequent first, and how uneven they are."""
    values = list(field["values"])
    counts = [value["rows"] for value in values]
    ratio = round(max(counts) / max(1, min(counts)), 1) if len(counts) > 1 else None
    note = f"Of its {SHOWN_VALUES} most frequent values." if len(values) == SHOWN_VALUES else ""
    return {"field": field["field"], "rows": sum(counts), "values": values, "ratio": ratio,
            "isUneven": sum(counts) > 1 if ratio is None else ratio >= UNEVEN, "note": note}
