"""The row rule: what a chat row and a preference pair must be, said of every wrong place at once.

The registry keeps the same rule on its side of the seam; one table of cases, tests/row_cases.json, holds both.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Any

from optimize_child.reading.json_faults import MAX_DEPTH, MAX_NUMBER_DIGITS, Fault, children, clipped, fault_of

ROLES = ("system", "user", "assistant", "tool")
ANSWERS = ("chosen", "rejected")
ALWAYS_FITS = 300
MAX_PATH_CHARACTERS = 300
MAX_PROBLEMS = 20
UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")

_DIGITS = re.compile(f"[0-9]{{{MAX_NUMBER_DIGITS + 1}}}")
_ESCAPED = re.compile(r"%(?:2e|2f|5c|25|00)", re.IGNORECASE)
_ROOTED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


Problem = Fault
"""One thing wrong with a row: where, a stable code, a sentence."""


class LineRefused(Exception):
    """The line holds no JSON object at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(told([problem]))
        self.problem = problem


def told(problems: list[Problem]) -> str:
    """What is wrong with a row as one text: each place and its sentence."""
    return "; ".join(f"{path}: {message}" if path else message for path, _, message in problems)


# One line of JSON -----------------------------------------------------------------------------------------------------


def read_row(line: bytes) -> dict[str, Any]:
    """The object on a line. Raises LineRefused for what the registry refuses of a line, whatever it means."""
    value = _parse(line)
    if not isinstance(value, dict):
        raise LineRefused(Problem("", "not_an_object", "A row is a JSON object."))
    return value


def _parse(line: bytes) -> Any:
    try:
        value = _DECODER.decode(line.decode())
    except (ValueError, RecursionError, _Faulty):
        raise LineRefused(fault_of(line) or Problem("", "not_json", "The line is not JSON.")) from None
    if _is_deep(line, value) or _has_odd_signs(line):
        fault = fault_of(line)
        if fault is not None:
            raise LineRefused(fault)
    return value


class _Faulty(Exception):
    """Something that Python's parser lets through and the rule does not."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        raise _Faulty
    return body


def _no_constant(_text: str) -> None:
    raise _Faulty


def _number(text: str) -> float:
    if len(text) > MAX_NUMBER_DIGITS and _DIGITS.search(text):
        raise _Faulty
    value = float(text)
    if math.isinf(value):
        raise _Faulty
    return value


def _whole_number(text: str) -> int:
    if len(text) > ALWAYS_FITS:
        _number(text)
    return int(text)


# Made once: `json.loads` with hooks makes one for each line.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_int=_whole_number, parse_float=_number
)


def _is_deep(line: bytes, value: Any) -> bool:
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for holder in level for _, item in children(holder) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _has_odd_signs(line: bytes) -> bool:
    """Whether U+0000 or half of a surrogate pair may stand in it: only an escape can spell them in good UTF-8."""
    return b"\\u0000" in line or b"\\ud" in line or b"\\uD" in line


# A chat row ----------------------------------------------------------------------------------------------------------


def check_row(row: dict[str, Any]) -> list[Problem]:
    """What is wrong with a chat row, the first MAX_PROBLEMS of it; empty for a good one."""
    messages = row.get("messages")
    problems = _check_tools(row)
    if not isinstance(messages, list) or not messages:
        text = 'A row needs "messages": a list of chat messages, oldest first.'
        return [*problems, Problem("messages", "messages_missing", text)][:MAX_PROBLEMS]
    problems += _check_messages("messages", messages)
    if problems:
        return problems[:MAX_PROBLEMS]
    unanswered = _check_calls_answered("messages", messages, len(messages) - 1)
    return [*unanswered[:MAX_PROBLEMS], *_check_end(messages)]


def _check_messages(path: str, messages: list[Any]) -> list[Problem]:
    shaped = [_check_message(f"{path}[{index}]", message, index == 0) for index, message in enumerate(messages)]
    return [problem for found in shaped for problem in found]


def _check_message(path: str, message: Any, is_first: bool) -> list[Problem]:
    if not isinstance(message, dict):
        return [Problem(path, "message_not_an_object", "A message is an object with a role and a content.")]
    role = message.get("role")
    if role not in ROLES:
        shown = clipped(json.dumps(role, ensure_ascii=False))
        text = f"The role is {shown}; it must be system, user, assistant or tool."
        return [Problem(f"{path}.role", "role_unknown", text)]
    problems = [] if role != "system" or is_first else [_late_system(path)]
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
    parts = [_check_part(f"{path}.content[{index}]", part, message["role"]) for index, part in enumerate(content)]
    return [problem for found in parts for problem in found]


def _check_part(path: str, part: Any, role: str) -> list[Problem]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return []
    if kind == "image" and _is_name(part.get("path")):
        return _check_image(path, part["path"], role)
    text = 'A part is {"type": "text", "text": …} or {"type": "image", "path": …}.'
    return [Problem(path, "content_part_invalid", text)]


def _check_image(place: str, path: str, role: str) -> list[Problem]:
    misplaced = Problem(place, "image_misplaced", "Only a user message may hold an image.")
    fault = _path_fault(path)
    wrong = Problem(f"{place}.path", "image_path_invalid", f'The path "{clipped(path)}" {fault}.')
    return [misplaced] * (role != "user") + [wrong] * bool(fault)


def _path_fault(path: str) -> str:
    """Why a path may not name a file beside the rows; empty where it may."""
    if len(path) > MAX_PATH_CHARACTERS:
        return f"is longer than {MAX_PATH_CHARACTERS} characters"
    if any(unicodedata.category(sign) in UNSEEN for sign in path):
        return "holds a sign that cannot be seen"
    if "\\" in path or _ESCAPED.search(path):
        return "holds a backslash or an escaped separator; write / between folders"
    if path.startswith("/") or _ROOTED.match(path):
        return "is not relative"
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        return "leaves its folder or names one twice; . and .. are no part of a path"
    return ""


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
            text = f'Two calls of one message share the id "{clipped(call["id"])}".'
            problems.append(Problem(f"{path}[{index}].id", "tool_call_id_repeated", text))
        seen.add(call["id"])
    return problems


def _check_calls_answered(path: str, messages: list[dict[str, Any]], end: int) -> list[Problem]:
    """Every call before the message at `end` is answered by a later tool message that names its id."""
    problems: list[Problem] = []
    waiting: dict[str, str] = {}
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if waiting.pop(message["tool_call_id"], None) is None:
                problems.append(_unknown_id(f"{path}[{index}]", message["tool_call_id"]))
            continue
        if index == end:
            break
        for number, call in enumerate(message.get("tool_calls") or []):
            if call["id"] in waiting:
                problems.append(_unanswered(waiting[call["id"]], call["id"]))
            waiting[call["id"]] = f"{path}[{index}].tool_calls[{number}].id"
    return problems + [_unanswered(place, id_) for id_, place in waiting.items()]


def _unknown_id(path: str, id_: str) -> Problem:
    text = f'No call before this message waits for an answer to "{clipped(id_)}".'
    return Problem(f"{path}.tool_call_id", "tool_call_id_unknown", text)


def _unanswered(path: str, id_: str) -> Problem:
    return Problem(path, "tool_call_unanswered", f'The call "{clipped(id_)}" is not answered by a tool message.')


def _check_end(messages: list[dict[str, Any]]) -> list[Problem]:
    last, path = messages[-1], f"messages[{len(messages) - 1}]"
    if last["role"] != "assistant":
        text = f'The last message is from "{last["role"]}"; a row ends with the assistant message to learn.'
        return [Problem(f"{path}.role", "answer_missing", text)]
    if _says_nothing(last):
        return [Problem(f"{path}.content", "answer_empty", "The final assistant message is empty.")]
    return []


def _says_nothing(message: dict[str, Any]) -> bool:
    return not message.get("tool_calls") and not text_of(message.get("content"))


def _check_tools(row: dict[str, Any]) -> list[Problem]:
    tools, problems = row.get("tools"), []
    if tools is not None and not isinstance(tools, list):
        problems.append(Problem("tools", "tools_invalid", "tools is a list of function definitions."))
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        if not _is_tool(tool):
            text = 'A tool is {"type": "function", "function": {"name": …, …}}.'
            problems.append(Problem(f"tools[{index}]", "tool_invalid", text))
    if row.get("functions") not in (None, []):
        problems.append(Problem("functions", "tools_invalid", "functions is the old form of tools."))
    return problems


def _is_tool(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and tool.get("type") == "function" and _is_name(function.get("name"))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


# A preference pair ---------------------------------------------------------------------------------------------------


def check_pair(row: dict[str, Any]) -> list[Problem]:
    """What is wrong with a preference pair, the first MAX_PROBLEMS of it; empty for a good one."""
    prompt, problems = row.get("prompt"), _check_tools(row)
    if isinstance(prompt, list) and prompt:
        problems += _check_messages("prompt", prompt)
    else:
        text = 'A pair needs "prompt": a list of chat messages, oldest first.'
        problems.append(Problem("prompt", "pair_incomplete", text))
    for name in ANSWERS:
        problems += _check_answer(name, row.get(name))
    return (problems or _check_sense(row))[:MAX_PROBLEMS]


def _check_answer(name: str, answer: Any) -> list[Problem]:
    if answer is None:
        return [Problem(name, "pair_incomplete", f'A pair needs "{name}": one assistant message.')]
    if not isinstance(answer, dict) or answer.get("role") != "assistant":
        text = f"{name} is one message of the assistant, an object with its role."
        return [Problem(name, "answer_not_a_message", text)]
    return _check_message(name, answer, False)


def _check_sense(row: dict[str, Any]) -> list[Problem]:
    prompt = row["prompt"]
    problems = _check_calls_answered("prompt", prompt, len(prompt))
    last = prompt[-1]["role"]
    if last not in ("user", "tool"):
        text = f'The last message of the prompt is from "{last}"; a prompt ends with the message that both answers '
        problems.append(Problem(f"prompt[{len(prompt) - 1}].role", "prompt_unfinished", f"{text}reply to."))
    for index, message in enumerate(prompt):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else []):
            if part["type"] == "image":
                text = "The part is an image; a preference pair holds text."
                problems.append(Problem(f"prompt[{index}].content[{number}]", "image_in_pair", text))
    for name in ANSWERS:
        if _says_nothing(row[name]):
            problems.append(Problem(f"{name}.content", "answer_empty", f"The {name} answer is empty."))
    if _said(row["chosen"]) == _said(row["rejected"]):
        text = "chosen and rejected say the same; a pair prefers one to the other."
        problems.append(Problem("rejected", "answers_equal", text))
    return problems


def _said(answer: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """What a well-formed answer says and calls, however it is written: its text, its calls in order."""
    calls = [call["function"] for call in answer.get("tool_calls") or []]
    # Written out, because Python takes 1 and true for equal.
    return text_of(answer.get("content")), [(call["name"], json.dumps(_as_object(call["arguments"]))) for call in calls]


# What a good row says ------------------------------------------------------------------------------------------------


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
        return _parse(arguments.encode())
    except LineRefused:
        return arguments
