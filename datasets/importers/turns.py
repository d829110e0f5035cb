"""Records of other spellings of a conversation: ShareGPT and Alpaca."""

from typing import Any

from datasets.importers.records import Record, RecordRefused, Row, json_of, row_of, tools_of, with_system

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant",
         "bard": "assistant", "model": "assistant", "assistant": "assistant", "system": "system",
         "observation": "tool", "tool": "tool", "function_response": "tool", "function_call": "call"}


def sharegpt(record: Record) -> Row:
    """`{"conversations": [{"from", "value"}], "system"?, "tools"?}`."""
    turns = record.fields.get("conversations")
    if not isinstance(turns, list):
        raise RecordRefused("conversations", "messages_missing", "The record has no list of conversations.")
    record.change("roles")
    messages: list[Row] = []
    for index, turn in enumerate(turns):
        messages.append(_turn(record, f"conversations[{index}]", turn, messages))
    messages = with_system(record, record.fields.get("system"), messages)
    tools = tools_of(record, record.fields.get("tools"))
    return row_of(messages, tools, record.drop_others({"conversations", "system", "tools"}))


def _turn(record: Record, path: str, turn: Any, before: list[Row]) -> Row:
    kind, value = (turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))) \
        if isinstance(turn, dict) else (None, None)
    role = ROLES.get(kind) if isinstance(kind, str) else None
    if role is None:
        raise RecordRefused(f"{path}.from", "role_unknown", f"The turn is from {str(kind)[:60]}; known are "
                            f"{', '.join(ROLES)}.")
    if not isinstance(value, str):
        raise RecordRefused(f"{path}.value", "content_missing", "The turn has no text.")
    if role == "call":
        return _call(record, path, value, len(before))
    if role == "tool":
        calls = before[-1].get("tool_calls") if before else None
        return {"role": "tool", "tool_call_id": calls[0]["id"] if calls else "", "content": value}
    return {"role": role, "content": value}


def _call(record: Record, path: str, value: str, index: int) -> Row:
    called = json_of(f"{path}.value", value)
    if not isinstance(called, dict) or "name" not in called:
        raise RecordRefused(f"{path}.value", "tool_call_invalid", "The turn calls a function without naming it.")
    record.change("tool_ids")
    function = {"name": called["name"], "arguments": called.get("arguments", {})}
    return {"role": "assistant", "content": "",
            "tool_calls": [{"id": f"call_{index}", "type": "function", "function": function}]}


def alpaca(record: Record) -> Row:
    """`{"instruction", "input"?, "output", "system"?, "history"?: [[asked, answered], …]}`."""
    fields = record.fields
    asked = "\n\n".join(part for part in (_text(record, "instruction"), _text(record, "input")) if part)
    history = fields.get("history") or []
    messages = [message for turn in (history if isinstance(history, list) else [history])
                for message in _asked(*_pair(turn))]
    messages += _asked(asked, fields.get("output"))
    record.change("text_prompt")
    columns = record.drop_others({"instruction", "input", "output", "system", "history"})
    return row_of(with_system(record, fields.get("system"), messages), None, columns)


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
