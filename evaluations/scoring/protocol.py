"""The lines that pass between a scorer process and whoever started it. Pure.

1. In: the spec (see `spec`). Out: `{"ready": true}`, or `{"ready": false, "code", "reason", "hint"}` and the end.
2. In: `{"id": 1, "items": [{"row": 0, "prompt": [messages], "tools": null, "completion": "…", "calls": null,
   "expected": "…", "columns": {}}]}`; `columns` is what else the row holds, and may be left out.
   Out: `{"id": 1, "terms": [{"name", "seconds", "tokens", "verdicts": [{"score", "isExact", "fields", "explanation",
   "cause"}]}]}`: the terms in the spec's order, the verdicts in the items'. `seconds` is what the term took for all of
   them. A line that is no such request is answered `{"id": …, "error": "…"}`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evaluations.graders import Verdict
from evaluations.scoring.terms import Item, NotReady, Scored


class BadRequest(ValueError):
    """A line that cannot be answered; `number` is its ID where it has one."""

    def __init__(self, reason: str, number: Any = None):
        super().__init__(reason)
        self.number = number


def read_request(line: str) -> tuple[Any, list[Item]]:
    """The ID and the items of a request. Raises BadRequest."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the line is no JSON: {error}") from error
    if not isinstance(found, Mapping) or not isinstance(found.get("items"), list):
        raise BadRequest("a request has id and items", found.get("id") if isinstance(found, Mapping) else None)
    return found.get("id"), [_item(place, item, found.get("id")) for place, item in enumerate(found["items"])]


def _item(place: int, item: Any, number: Any) -> Item:
    if not isinstance(item, Mapping) or not isinstance(item.get("completion"), str):
        raise BadRequest(f"items[{place}] has no completion", number)
    return Item(int(item.get("row", place)), item.get("prompt") or [], item["completion"], item.get("expected") or "",
                item.get("tools"), item.get("calls"), item.get("columns") or {})


def item_document(item: Item) -> dict[str, Any]:
    """An item as a request holds it."""
    return {"row": item.row, "prompt": list(item.prompt), "tools": item.tools, "completion": item.completion,
            "calls": item.calls, "expected": item.expected} | ({"columns": dict(item.columns)} if item.columns else {})


def reply(number: Any, terms: Sequence[Scored]) -> dict[str, Any]:
    """What every term said."""
    return {"id": number, "terms": [
        {"name": term.name, "seconds": round(term.seconds, 6), "tokens": term.tokens,
         "verdicts": [verdict_document(verdict) for verdict in term.verdicts]} for term in terms]}


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a reply holds it."""
    return {"score": verdict.score, "isExact": verdict.is_exact, "fields": dict(verdict.fields),
            "explanation": verdict.explanation, "cause": verdict.cause}


def read_verdict(found: Mapping[str, Any]) -> Verdict:
    """The verdict in a reply."""
    return Verdict(found["score"], found["isExact"], found["fields"], found["explanation"], found["cause"])


def refusal(error: NotReady) -> dict[str, Any]:
    """The first line out where nothing can be scored."""
    return {"ready": False, "code": error.code, "reason": error.reason, "hint": error.hint}
