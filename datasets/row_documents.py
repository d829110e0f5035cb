"""A stored row as a document to show: a conversation, a pair, tokens or an item, cut where it is too large."""

from collections.abc import Iterator
from typing import Any

import orjson

from datasets.formats.prepared import FORMAT as PREPARED
from datasets.pairs import FORMAT as PREFERENCE
from datasets.row_cut import cut_row
from datasets.rows import FORMAT as CHAT
from datasets.rows import Row, text_of
from datasets.stored_rows import StoredRow

OWN_KEYS = {CHAT: ("messages", "tools"), PREFERENCE: ("prompt", "chosen", "rejected", "tools")}
SHOWN_BYTES = 64 * 1024
"""A row larger than this is not shown whole by programs either; its bytes are a download."""
SHOWN_TOKENS = 2048


def row_document(row: StoredRow, format: str, *, room: int = SHOWN_BYTES) -> dict[str, Any]:
    """The row as `{position, path, line, bytes, isCut}` and what its format holds.

    Chat: `messages, tools, columns`; a pair: `prompt, chosen, rejected, tools, columns`; prepared tokens: `tokens,
    trainedTokens, ids, trained` (the stretches `[from, to)` of trained ones); an evaluation item: `item`. A row of
    more than `room` bytes is cut to about that much.
    """
    found: dict[str, Any] = {"position": row.position, "path": row.path, "line": row.line, "bytes": len(row.data),
                             "isCut": len(row.data) > room}
    value = orjson.loads(row.data)
    if format == PREPARED:
        return found | _tokens(value, min(SHOWN_TOKENS, room // 8))
    value = cut_row(value, room) if found["isCut"] else value
    return found | (_conversation(value, OWN_KEYS[format]) if format in OWN_KEYS else {"item": value})


def _conversation(row: Row, own: tuple[str, ...]) -> dict[str, Any]:
    columns = {key: value for key, value in row.items() if key not in own}
    return {key: row.get(key) for key in own} | {"tools": row.get("tools") or [], "columns": columns}


def _tokens(row: Row, room: int) -> dict[str, Any]:
    ids, mask = row["input_ids"], row["loss_mask"]
    return {"tokens": len(ids), "trainedTokens": sum(mask), "isCut": len(ids) > room, "ids": ids[:room],
            "trained": list(_stretches(mask[:room]))}


def _stretches(mask: list[int]) -> Iterator[list[int]]:
    """Where the mask is 1, as `[from, to)`."""
    start = None
    for place, is_trained in enumerate([*mask, 0]):
        if is_trained and start is None:
            start = place
        elif not is_trained and start is not None:
            yield [start, place]
            start = None


def id_pieces(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The ids of a token row in pieces, each `{"text", "isTrained"}`."""
    pieces, ids, done = [], row["ids"], 0
    for start, end in [*row["trained"], [len(ids), len(ids)]]:
        for part, is_trained in ((ids[done:start], False), (ids[start:end], True)):
            if part:
                pieces.append({"text": " ".join(map(str, part)), "isTrained": is_trained})
        done = end
    return pieces


def messages_of(row: Row) -> Iterator[Row]:
    """Every message of a chat row or a pair, answers too."""
    yield from row.get("messages") or row.get("prompt") or []
    for name in ("chosen", "rejected"):
        if isinstance(row.get(name), dict):
            yield row[name]


def texts_of(value: Any) -> Iterator[str]:
    """What can be searched of a parsed row, a text for each message: what it says and what it calls."""
    messages = list(messages_of(value)) if isinstance(value, dict) else []
    for message in messages:
        yield text_of(message.get("content"))
        for call in message.get("tool_calls") or []:
            function, arguments = call["function"], call["function"].get("arguments")
            yield f"{function['name']} {arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()}"
    if not messages:
        yield from _strings(value)


def _strings(value: Any) -> Iterator[str]:
    """Every string inside a value."""
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            rest += item.values()
        elif isinstance(item, list):
            rest += item
