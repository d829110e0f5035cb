"""Records of tables: each column, or a text with columns in it, mapped to a message or a part of a row."""

import json
import re
from collections.abc import Mapping
from typing import Any

from datasets.importers.records import Record, RecordRefused, Row, holds_messages, json_of, row_of, tools_of

MESSAGES = ("system", "user", "assistant")
PAIR = ("prompt", "chosen", "rejected")
PARTS = (*MESSAGES, *PAIR, "messages", "tools")
PLACE = re.compile(r"\{([^{}]+)\}")
GUESSES = {
    "system": ("system", "system_prompt"),
    "user": ("user", "prompt", "question", "query", "input", "text", "instruction"),
    "assistant": ("assistant", "completion", "answer", "response", "output", "label", "target"),
}


def guess_mapping(columns: Mapping[str, Any]) -> dict[str, str]:
    """The mapping that well-known names of columns suggest; without a user and an assistant message it is empty."""
    names = {name.casefold(): name for name in columns}
    found = {part: next((names[name] for name in known if name in names), "") for part, known in GUESSES.items()}
    return {part: name for part, name in found.items() if name} if found["user"] and found["assistant"] else {}


def table(record: Record) -> Row:
    """A row from columns. `user` and `assistant` give a chat row, `prompt`, `chosen` and `rejected` a pair."""
    mapping = record.mapping or guess_mapping(record.fields)
    if not mapping:
        raise RecordRefused("", "no_mapping", f"The columns are {', '.join(record.fields)[:200]}; which is which is "
                            "not known.", "Say so: --map user=COLUMN --map assistant=COLUMN.")
    columns = record.drop_others({name for source in mapping.values() for name in _named(source)})
    tools = tools_of(record, _value(record, mapping["tools"])) if "tools" in mapping else None
    record.change("text_prompt")
    if "messages" in mapping:
        return row_of(_json(record, mapping["messages"]), tools, columns)
    if "chosen" in mapping:
        return _pair(record, mapping) | ({"tools": tools} if tools else {}) | columns
    messages = [{"role": role, "content": _text(record, mapping[role])} for role in MESSAGES if role in mapping]
    return row_of([message for message in messages if message["role"] != "system" or message["content"]], tools,
                  columns)


def _pair(record: Record, mapping: Mapping[str, str]) -> Row:
    missing = [part for part in PAIR if part not in mapping]
    if missing:
        raise RecordRefused("", "no_mapping", f"A pair needs {', '.join(missing)} too.",
                            f"Add --map {missing[0]}=COLUMN.")
    return {"prompt": [{"role": "user", "content": _text(record, mapping["prompt"])}]} | {
        name: {"role": "assistant", "content": _text(record, mapping[name])} for name in ("chosen", "rejected")}


def _named(source: str) -> list[str]:
    return PLACE.findall(source) or [source]


def _text(record: Record, source: str) -> str:
    """A column's text, or a text in which columns stand in braces."""
    if not PLACE.search(source):
        return shown(_value(record, source))
    return PLACE.sub(lambda found: shown(_value(record, found[1])), source)


def shown(value: Any) -> str:
    """A cell as text: what is no text as JSON writes it."""
    if value is None or isinstance(value, str):
        return value or ""
    if holds_messages(value):
        raise RecordRefused("", "messages_in_cell", "A cell holds messages, which are no text.", "Read them as "
                            "messages: --as prompt-completion --map user=COLUMN --map assistant=COLUMN, or --as "
                            "preference --map prompt=COLUMN --map chosen=COLUMN --map rejected=COLUMN.")
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        raise RecordRefused("", "content_invalid", f"A cell holds {type(value).__name__}, which is no text.") from None


def _json(record: Record, source: str) -> Any:
    value = _value(record, source)
    return json_of(source, value) if isinstance(value, str) else value


def _value(record: Record, name: str) -> Any:
    if name not in record.fields:
        raise RecordRefused(name, "column_missing", f"There is no column {name}; there are "
                            f"{', '.join(record.fields)[:200]}.")
    return record.fields[name]
