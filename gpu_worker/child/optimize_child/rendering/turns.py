"""The turns of a conversation, and the conversation without its oldest ones.

A turn is a user message and what follows it up to the next user message; what stands before the first user message is
a turn of its own. The system prompt belongs to no turn. Calls and their results lie between two user messages, so a
turn holds both or neither.
"""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]


def turn_starts(messages: list[Message]) -> list[int]:
    """Where each turn begins, in order. A row with an answer has at least one."""
    first = 1 if messages[0]["role"] == "system" else 0
    later = [index for index in range(first + 1, len(messages)) if messages[index]["role"] == "user"]
    return [first, *later]


def removable_turns(messages: list[Message]) -> int:
    """How many turns may go: all but the last."""
    return len(turn_starts(messages)) - 1


def without_oldest(messages: list[Message], turns: int) -> list[Message]:
    """The conversation without its `turns` oldest turns; the system prompt stays."""
    starts = turn_starts(messages)
    return messages[: starts[0]] + messages[starts[turns] :]
