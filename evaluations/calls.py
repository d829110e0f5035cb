"""The tools that an answer calls, read out of its text as the usual chat templates write calls. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluations.graders.json_values import NOTHING, find_value, without_thoughts

TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
LISTED = re.compile(r"\[TOOL_CALLS\]\s*(\[.*)", re.DOTALL)
ARGUMENTS = ("arguments", "parameters")


def calls_in(answer: str, tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """The calls `{"name", "arguments"}` in an answer to a prompt that offers these tools; None where it makes none.

    Read are `<tool_call>{…}</tool_call>`, `[TOOL_CALLS][{…}]` and an answer that begins with a call. Only tools that
    were offered are called.
    """
    offered = {_name(tool) for tool in tools or ()}
    found = [call for text in _written(answer) for call in _calls(text, offered)] if offered else []
    return found or None


def _name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str((function if isinstance(function, Mapping) else tool).get("name") or "")


def _written(answer: str) -> Iterator[str]:
    """The stretches of the answer that may be calls."""
    said = without_thoughts(answer)
    listed = LISTED.search(said)
    yield from TAGGED.findall(said) or ([listed.group(1)] if listed else [said.strip()])


def _calls(text: str, offered: set[str]) -> Iterator[dict[str, Any]]:
    found = find_value(text) if text[:1] in ("{", "[") else NOTHING
    for call in found if isinstance(found, list) else [found]:
        if isinstance(call, dict) and isinstance(call.get("name"), str) and call["name"] in offered:
            arguments: Any = next((call[key] for key in ARGUMENTS if key in call), {})
            yield {"name": call["name"], "arguments": arguments}
