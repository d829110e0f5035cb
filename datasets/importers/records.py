"""What the kinds of records share: a record and its place, a refusal, and messages of other spellings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from datasets.importers.report import Report
from datasets.strict_json import LineRefused, parse_text
from optimize_site.kernel.errors import Problem

Row = dict[str, Any]
OWN = frozenset({"messages", "tools", "functions", "prompt", "chosen", "rejected"})
"""Names that a row gives its own meaning, so that no column is kept under them."""
IMAGES = ("images", "image")
MEDIA = (*IMAGES, "videos", "video", "audios", "audio")
"""What a record holds beside its texts, which mean something else without it."""


class RecordRefused(ValueError):
    """A record has no row to give; `problem` says why."""

    def __init__(self, path: str, code: str, message: str, hint: str = ""):
        super().__init__(message)
        self.problem = Problem(path, code, message, hint)


class RecordLeftOut(Exception):
    """A record is not meant to be a row; `code` is that of the change to report."""

    def __init__(self, code: str):
        super().__init__(code)
        self.code = code


@dataclass
class Record:
    """One record of a source, at its place, with the report that its conversion adds to."""

    place: int
    fields: Mapping[str, Any]
    report: Report
    mapping: Mapping[str, str] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()

    def change(self, code: str) -> None:
        self.report.change(code, self.place)

    def drop_others(self, used: set[str]) -> Row:
        """The columns to keep beside what was used; the others are counted as dropped. Raises RecordRefused for media,
        unless the columns to use were named."""
        for name in self.fields:
            if name in MEDIA and self.fields[name] and name not in used | self.keep and not self.mapping:
                raise RecordRefused(name, "media_left_out", f"The record has {name}, which has no place in such a row.",
                                    "Name the columns to read without them: --map user=COLUMN --map assistant=COLUMN.")
            if name not in used and name not in self.keep and self.fields[name] is not None:
                self.report.drop(name, self.place)
        return {name: self.fields[name] for name in self.fields if name in self.keep and name not in OWN}


Convert = Callable[[Record], Row]


def tools_of(record: Record, value: Any) -> list[Any] | None:
    """A record's tools as a list: some write them as a JSON text, some write a blank one. Raises RecordRefused."""
    if isinstance(value, str):
        if not value.strip():
            record.change("blank_tools")
            return None
        value = json_of("tools", value)
        record.change("tools_text")
    return list(map(_wrapped, value)) or None if isinstance(value, list) else value


def _wrapped(tool: Any) -> Any:
    """A tool in its wrapper: some tools write the function alone."""
    if isinstance(tool, dict) and "function" not in tool and "name" in tool:
        return {"type": "function", "function": tool}
    return tool


def holds_messages(value: Any) -> bool:
    """Whether a value is a message or a list of messages, as tools spell them."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and "role" in first and not {"content", "tool_calls", "function_call"}.isdisjoint(
        first)


def json_of(path: str, text: str) -> Any:
    """The JSON that a text holds. Raises RecordRefused."""
    try:
        return parse_text(text)
    except LineRefused as error:
        raise RecordRefused(path, error.problem.code, f"The text is no JSON: {error.problem.message}") from None


def with_system(record: Record, system: Any, messages: list[Row]) -> list[Row]:
    """The messages after a system text that stood beside them, where there is one."""
    if not isinstance(system, str) or not system:
        return messages
    record.change("system_column")
    return [{"role": "system", "content": system}, *messages]


def row_of(messages: list[Row], tools: list[Any] | None, columns: Row) -> Row:
    """A chat row; a row without tools has no such key."""
    return {"messages": messages} | ({"tools": tools} if tools else {}) | columns
