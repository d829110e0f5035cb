"""Records of other spellings of a conversation: ShareGPT and Alpaca."""

from itertools import groupby
from typing import Any, NamedTuple

from datasets.importers.marks import MARKS, without_marks
from datasets.importers.media import with_images
from datasets.importers.records import IMAGES, Record, RecordRefused, Row, json_of, row_of, tools_of, with_system
from datasets.importers.table import shown

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant",
         "bard": "assistant", "model": "assistant", "assistant": "assistant", "system": "system",
         "observation": "tool", "tool": "tool", "function_response": "tool", "function_call": "call"}


def sharegpt(record: Record) -> Row:
    """`{"conversations": [{"from", "value"}], "system"?, "tools"?, "images"?}`; `<image>` marks an image's place."""
    turns = record.fields.get("conversations")
    if not isinstance(turns, list):
        raise RecordRefused("conversations", "messages_missing", "The record has no list of conversations.")
    record.change("roles")
    messages: list[Row] = []
    said = [_turn(record, f"conversations[{index}]", turn) for index, turn in enumerate(turns)]
    for role, together in groupby(said, lambda turn: turn.role):
        messages += _messages(record, role, list(together), messages)
    messages = with_system(record, record.fields.get("system"), with_images(record, without_marks(record, messages)))
    tools = tools_of(record, record.fields.get("tools"))
    return row_of(messages, tools, record.drop_others({"conversations", "system", "tools", *IMAGES}))


class Turn(NamedTuple):
    """What one turn says: `marks` say whether it is to be trained."""

    path: str
    role: str
    text: str
    marks: Row


def _turn(record: Record, path: str, turn: Any) -> Turn:
    kind, value = (turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))) \
        if isinstance(turn, dict) else (None, None)
    role = ROLES.get(kind) if isinstance(kind, str) else None
    if role is None:
        raise RecordRefused(f"{path}.from", "role_unknown", f"The turn is from {str(kind)[:60]}; known are "
                            f"{', '.join(ROLES)}.")
    if not isinstance(value, str):
        raise RecordRefused(f"{path}.value", "content_missing", "The turn has no text.")
    for name in turn.keys() - {"from", "role", "value", "content", *MARKS}:
        record.report.drop(f"conversations.{name}", record.place)
    return Turn(path, role, value, {name: turn[name] for name in MARKS if name in turn})


def _messages(record: Record, role: str, turns: list[Turn], before: list[Row]) -> list[Row]:
    """The messages of turns of one role that follow each other: calls become one message, results one for each call."""
    if role == "call":
        return [_calls(record, turns, len(before))]
    if role == "tool":
        return _results(record, turns, before[-1].get("tool_calls", []) if before else [])
    return [{"role": role, "content": turn.text} | turn.marks for turn in turns]


def _calls(record: Record, turns: list[Turn], index: int) -> Row:
    functions = [function for turn in turns for function in _functions(turn)]
    record.change("tool_ids")
    if len(turns) > 1:
        record.change("parallel_calls")
    ids = [f"call_{index}_{number}" if number else f"call_{index}" for number in range(len(functions))]
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": id_, "type": "function", "function": function} for id_, function in zip(ids, functions, strict=True)]
    } | turns[0].marks


def _functions(turn: Turn) -> list[Row]:
    """The functions that a turn calls: one, or a list of them."""
    called = json_of(f"{turn.path}.value", turn.text)
    listed = called if isinstance(called, list) and called else [called]
    if not all(isinstance(function, dict) and "name" in function for function in listed):
        raise RecordRefused(f"{turn.path}.value", "tool_call_invalid", "The turn calls a function without naming it.")
    return [{"name": function["name"], "arguments": function.get("arguments", function.get("parameters", {}))}
            for function in listed]


def _results(record: Record, turns: list[Turn], calls: list[Row]) -> list[Row]:
    texts = [turn.text for turn in turns]
    if len(texts) == 1 < len(calls):
        listed = json_of(f"{turns[0].path}.value", texts[0])
        texts = list(map(shown, listed)) if isinstance(listed, list) else texts
        record.change("results_split")
    if len(texts) != len(calls):
        raise RecordRefused(f"{turns[0].path}.value", "results_differ", f"{len(calls)} calls are answered by "
                            f"{len(texts)} results.", "Give each call its result, in order: a turn for each, or one "
                            "turn with a list.")
    return [{"role": "tool", "tool_call_id": call["id"], "content": text}
            for call, text in zip(calls, texts, strict=True)]


def alpaca(record: Record) -> Row:
    """`{"instruction", "input"?, "output", "system"?, "history"?: [[asked, answered], …]}`."""
    fields = record.fields
    asked = "\n\n".join(part for part in (_text(record, "instruction"), _text(record, "input")) if part)
    history = fields.get("history") or []
    messages = [message for turn in (history if isinstance(history, list) else [history])
                for message in _asked(*_pair(turn))]
    messages += _asked(asked, fields.get("output"))
    record.change("text_prompt")
    columns = record.drop_others({"instruction", "input", "output", "system", "history", *IMAGES})
    return row_of(with_system(record, fields.get("system"), with_images(record, messages)), None, columns)


def _text(record: Record, name: str) -> str:
    value = record.fields.get(name) or ""
    if not isinstance(value, str):
        raise RecordRefused(name, "content_invalid", f"The {name} is no text.")
    return value


def _pair(turn: Any) -> tuple[Any, Any]:
    if not isinstance(turn, list) or len(turn) != 2:
        raise RecordRefused("history", "history_invalid", "A turn of the history is a pair: asked, answered.")
    return turn[0], turn[1]


def _asked(asked: Any, answered: Any) -> list[Row]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
