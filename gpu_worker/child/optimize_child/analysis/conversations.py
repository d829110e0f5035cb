"""What an analysis reads of a row: its conversations as a template reads them, and what the row says.

A chat row is one conversation. A preference pair is two, its prompt with each answer, and its length is the longer's.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from optimize_child.reading.rows import ANSWERS, Problem, check_pair, check_row, has_images, messages_of, told, tools_of

CHAT, PREFERENCE = "chat-jsonl-v1", "preference-jsonl-v1"

Message = dict[str, Any]


class RowRefused(Exception):
    """The row is not what the registry accepts, or not what this analysis measures; the text says why."""


class Row(NamedTuple):
    """A good row: its conversations, the tools it offers, and whether its messages hold images."""

    conversations: list[list[Message]]
    tools: list[dict[str, Any]] | None
    images: bool
    source: dict[str, Any]


def row_of(source: dict[str, Any], format_: str) -> Row:
    """The row a line holds. Raises RowRefused with every problem of a bad one."""
    if format_ == PREFERENCE:
        return _pair(source)
    _require_good(check_row(source))
    return Row([messages_of(source)], tools_of(source), has_images(source), source)


def _pair(source: dict[str, Any]) -> Row:
    _require_good(check_pair(source))
    whole = [{**source, "messages": [*source["prompt"], source[name]]} for name in ANSWERS]
    if has_images(whole[0]):
        raise RowRefused("the pair has images, and pairs are measured as text")
    return Row([messages_of(one) for one in whole], tools_of(source), False, source)


def _require_good(problems: list[Problem]) -> None:
    if problems:
        raise RowRefused(told(problems))


def said(conversations: list[list[Message]]) -> str:
    """What a row says, in one text: its messages but the system prompt, and its calls. Each answer of a pair counts."""
    first, *others = conversations
    messages = [message for message in first if message["role"] != "system"]
    return "\n".join(_said(message) for message in [*messages, *(other[-1] for other in others)])


def _said(message: Message) -> str:
    content: str = message["content"]
    if "tool_calls" not in message:
        return content
    return f"{content} {json.dumps([call['function'] for call in message['tool_calls']], ensure_ascii=False)}"
