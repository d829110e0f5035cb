"""Assistant messages that follow each other, and whether the template renders two of them as one turn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from optimize_child.rendering.template import ChatTemplate, TemplateRefused

KEPT_SHAPES = 4096


class Joins:
    """Tells it by the roles of a row's messages; keep one for many rows."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._known: dict[tuple[str, ...], bool] = {}

    def joined(self, messages: list[dict[str, Any]]) -> bool | None:
        """None where no two assistant messages follow each other; else whether a template writes no sign of a turn
        between two that do."""
        roles = tuple([message["role"] for message in messages])
        if len(roles) < 3 or ("assistant", "assistant") not in pairwise(roles):
            return None
        if roles not in self._known:
            if len(self._known) >= KEPT_SHAPES:
                self._known.clear()
            self._known[roles] = self._try(roles)
        return self._known[roles]

    def _try(self, roles: tuple[str, ...]) -> bool:
        marks = [f"zqx{index}xqz" for index in range(len(roles))]
        messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
        messages = [{**one, "tool_call_id": "c"} if one["role"] == "tool" else one for one in messages]
        try:
            text = self._template.render(messages)
        except TemplateRefused:
            return False
        return any(
            roles[index] == roles[index + 1] == "assistant" and self._is_one_turn(text, marks[index], marks[index + 1])
            for index in range(len(roles) - 1)
        )

    def _is_one_turn(self, text: str, one: str, other: str) -> bool:
        start, end = text.find(one), text.find(other)
        if start < 0 or end < start:
            return False
        between = text[start + len(one) : end]
        return "assistant" not in between.lower() and not any(
            token in between for token in self._template.special_tokens
        )
