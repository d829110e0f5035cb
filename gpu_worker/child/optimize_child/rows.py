"""The row rule: what a chat row must be, said of every wrong place at once.

The registry keeps the same rule on its side of the seam; one table of cases, tests/row_cases.json, holds both.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

ROLES = ("system", "user", "assistant", "tool")


class Problem(NamedTuple):
    """One thing wrong with a row: where, a stable code, a sentence."""

    path: str
    code: str
    message: str


class LineRefused(Exception):
    """The line holds no JSON object at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def read_row(line: bytes) -> dict[str, Any]:
    """The object on a line; raises LineRefused for bad UTF-8, bad JSON, a repeated key, NaN, or another value."""
    try:
        value = json.loads(line.decode(), object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise LineRefused(Problem("", "not_utf8", "The line is not valid UTF-8.")) from None
    except json.JSONDecodeError as error:
        text = f"The line is not valid JSON: {error.msg} at column {error.colno}."
        raise LineRefused(Problem("", "not_json", text)) from None
    except RecursionError:
        raise LineRefused(Problem("", "not_json", "The line is nested too deeply.")) from None
    if not isinstance(value, dict):
        raise LineRefused(Problem("", "not_an_object", "A row is a JSON object."))
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, value in pairs:
        if name in body:
            raise LineRefused(Problem("", "duplicate_key", f'The key "{name}" appears twice in one object.'))
        body[name] = value
    return body


def _no_constant(_text: str) -> None:
    raise LineRefused(Problem("", "not_a_number", "NaN and Infinity are not JSON."))


def check_row(row: dict[str, Any]) -> list[Problem]:
    """Everything that is wrong with a chat row; empty for a good one."""
    messages = row.get("messages")
    problems = _check_tools(row.get("tools"))
    if row.get("functions") not in (None, []):
        problems.append(Problem("functions", "tools_invalid", "functions is the old form of tools."))
    if not isinstance(messages, list) or not messages:
        text = 'A row needs "messages": a list of chat messages, oldest first.'
        return [*problems, Problem("messages", "messages_missing", text)]
    shaped = [_check_message(index, message) for index, message in enumerate(messages)]
    problems += [problem for found in shaped for problem in found]
    if problems:
        return problems
    return [*_check_calls_answered(messages), *_check_end(messages)]


def _check_message(index: int, message: Any) -> list[Problem]:
    path = f"messages[{index}]"
    if not isinstance(message, dict):
        return [Problem(path, "message_not_an_object", "A message is an object with a role and a content.")]
    role = message.get("role")
    if role not in ROLES:
        text = f"The role is {json.dumps(role)}; it must be system, user, assistant or tool."
        return [Problem(f"{path}.role", "role_unknown", text)]
    problems = [] if role != "system" or index == 0 else [_late_system(path)]
    if message.get("function_call") is not None:
        text = "function_call is the old form of tool_calls."
        return [*problems, Problem(f"{path}.function_call", "legacy_function_call", text)]
    problems += _check_content(path, message)
    if message.get("tool_calls") not in (None, []):
        problems += _check_tool_calls(path, message)
    if role == "tool" and not _is_name(message.get("tool_call_id")):
        text = "A tool message names the call it answers in tool_call_id."
        problems.append(Problem(f"{path}.tool_call_id", "tool_call_id_missing", text))
    return problems


def _late_system(path: str) -> Problem:
    return Problem(f"{path}.role", "system_not_first", "A system message is the first message or none.")


def _check_content(path: str, message: dict[str, Any]) -> list[Problem]:
    content = message.get("content")
    if isinstance(content, str):
        return []
    if content is None:
        if message["role"] == "assistant" and message.get("tool_calls"):
            return []
        return [Problem(f"{path}.content", "content_missing", "The message has no content.")]
    if not isinstance(content, list):
        return [Problem(f"{path}.content", "content_invalid", "The content is a text or a list of parts.")]
    parts = (_check_part(f"{path}.content[{index}]", part, message["role"]) for index, part in enumerate(content))
    return [problem for problem in parts if problem]


def _check_part(path: str, part: Any, role: str) -> Problem | None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return None
    if kind == "image" and _is_name(part.get("path")):
        return None if role == "user" else Problem(path, "image_misplaced", "Only a user message may hold an image.")
    text = 'A part is {"type": "text", "text": …} or {"type": "image", "path": …}.'
    return Problem(path, "content_part_invalid", text)


def _check_tool_calls(path: str, message: dict[str, Any]) -> list[Problem]:
    calls = message["tool_calls"]
    path = f"{path}.tool_calls"
    if message["role"] != "assistant":
        return [Problem(path, "tool_calls_misplaced", "Only an assistant message may call tools.")]
    if not isinstance(calls, list):
        return [Problem(path, "tool_calls_invalid", "tool_calls is a list of calls.")]
    problems = [problem for index, call in enumerate(calls) for problem in _check_call(f"{path}[{index}]", call)]
    return problems or _check_ids_differ(path, calls)


def _check_call(path: str, call: Any) -> list[Problem]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        text = 'A call is {"id": …, "type": "function", "function": {"name": …, "arguments": {…}}}.'
        return [Problem(path, "tool_call_invalid", text)]
    problems = []
    if not _is_name(call.get("id")):
        problems.append(Problem(f"{path}.id", "tool_call_id_missing", "A call has an id."))
    if not _is_name(function.get("name")):
        problems.append(Problem(f"{path}.function.name", "tool_call_name_missing", "A call names its function."))
    if not isinstance(_as_object(function.get("arguments")), dict):
        text = "The arguments are a JSON object, or a string that holds one."
        problems.append(Problem(f"{path}.function.arguments", "arguments_invalid", text))
    return problems


def _check_ids_differ(path: str, calls: list[dict[str, Any]]) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for index, call in enumerate(calls):
        if call["id"] in seen:
            text = f'Two calls of one message share the id "{call["id"]}".'
            problems.append(Problem(f"{path}[{index}].id", "tool_call_id_repeated", text))
        seen.add(call["id"])
    return problems


def _check_calls_answered(messages: list[dict[str, Any]]) -> list[Problem]:
    """Every call before the final message is answered by a later tool message that names its id."""
    problems: list[Problem] = []
    waiting: dict[str, str] = {}
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if waiting.pop(message["tool_call_id"], None) is None:
                problems.append(_unknown_id(index, message))
            continue
        if index == len(messages) - 1:
            break
        for number, call in enumerate(message.get("tool_calls") or []):
            if call["id"] in waiting:
                problems.append(_unanswered(waiting[call["id"]], call["id"]))
            waiting[call["id"]] = f"messages[{index}].tool_calls[{number}].id"
    return problems + [_unanswered(path, id_) for id_, path in waiting.items()]


def _unknown_id(index: int, message: dict[str, Any]) -> Problem:
    text = f'No call before this message waits for an answer to "{message["tool_call_id"]}".'
    return Problem(f"messages[{index}].tool_call_id", "tool_call_id_unknown", text)


def _unanswered(path: str, id_: str) -> Problem:
    return Problem(path, "tool_call_unanswered", f'The call "{id_}" is not answered by a tool message.')


def _check_end(messages: list[dict[str, Any]]) -> list[Problem]:
    last, path = messages[-1], f"messages[{len(messages) - 1}]"
    if last["role"] != "assistant":
        text = f'The last message is from "{last["role"]}"; a row ends with the assistant message to learn.'
        return [Problem(f"{path}.role", "answer_missing", text)]
    if not last.get("tool_calls") and not text_of(last.get("content")):
        return [Problem(f"{path}.content", "answer_empty", "The final assistant message is empty.")]
    return []


def _check_tools(tools: Any) -> list[Problem]:
    if tools is None:
        return []
    if not isinstance(tools, list):
        return [Problem("tools", "tools_invalid", "tools is a list of function definitions.")]
    return [
        Problem(f"tools[{index}]", "tool_invalid", 'A tool is {"type": "function", "function": {"name": …, …}}.')
        for index, tool in enumerate(tools)
        if not _is_tool(tool)
    ]


def _is_tool(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and tool.get("type") == "function" and _is_name(function.get("name"))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def text_of(content: Any) -> str:
    """The text of a message's content, its parts joined."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


def has_images(row: dict[str, Any]) -> bool:
    """Whether any message of a good row holds an image."""
    contents = [message.get("content") for message in row["messages"]]
    return any(part["type"] == "image" for parts in contents if isinstance(parts, list) for part in parts)


def messages_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A good row's messages the way a text template reads them: contents as text, call arguments as objects."""
    return [_plain_message(message) for message in row["messages"]]


def tools_of(row: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The tools a row offers, as it writes them; None for a row that offers none."""
    return row.get("tools") or None


def _plain_message(message: dict[str, Any]) -> dict[str, Any]:
    plain = {**message, "content": text_of(message.get("content"))}
    if not message.get("tool_calls"):
        plain.pop("tool_calls", None)
        return plain
    plain["tool_calls"] = [
        {**call, "function": {**call["function"], "arguments": _as_object(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return plain


def _as_object(arguments: Any) -> Any:
    """Arguments written as a JSON string are the object the string holds."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except (json.JSONDecodeError, LineRefused):
        return arguments
