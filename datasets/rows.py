"""The row rule: what one chat row must be, said of every wrong place at once, each with an example of the right form.

`datasets.pairs` says the same of a preference pair, by the same rule for a message. Jobs keep both on their side of the
seam; one table of cases, tests/row_cases.json, holds the two sides together.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Any

from datasets.json_faults import clipped
from datasets.strict_json import LineRefused, parse_line, parse_text
from optimize_site.kernel.errors import Problem

FORMAT = "chat-jsonl-v1"
ROLES = ("system", "user", "assistant", "tool")
MAX_PROBLEMS = 20
MAX_PATH_CHARACTERS = 300
UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")

_ESCAPED = re.compile(r"%(?:2e|2f|5c|25|00)", re.IGNORECASE)
_ROOTED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

Row = dict[str, Any]

EXAMPLES = {
    "not_an_object": '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}',
    "messages_missing": '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}',
    "message_not_an_object": '{"role": "user", "content": "…"}',
    "role_unknown": '"role": "user"',
    "system_not_first": '{"messages": [{"role": "system", "content": "…"}, {"role": "user", "content": "…"}, …]}',
    "content_missing": '"content": "…"',
    "content_invalid": '"content": "…", or "content": [{"type": "text", "text": "…"}]',
    "content_part_invalid": '{"type": "text", "text": "…"}',
    "image_path_invalid": '"path": "images/invoice-1042.png", relative to the file of rows',
    "image_misplaced": '{"type": "text", "text": "…"}',
    "tool_calls_misplaced": '{"role": "assistant", "tool_calls": […]}',
    "tool_calls_invalid": '"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "…", '
                          '"arguments": {}}}]',
    "tool_call_invalid": '{"id": "call_1", "type": "function", "function": {"name": "…", "arguments": {}}}',
    "tool_call_id_missing": '"id": "call_1", answered by "tool_call_id": "call_1"',
    "tool_call_id_repeated": '"tool_calls": [{"id": "call_1", …}, {"id": "call_2", …}]',
    "tool_call_id_unknown": '{"role": "assistant", "tool_calls": [{"id": "call_1", …}]}, then {"role": "tool", '
                            '"tool_call_id": "call_1", "content": "…"}',
    "tool_call_name_missing": '"function": {"name": "get_weather", "arguments": {}}',
    "tool_call_unanswered": '{"role": "tool", "tool_call_id": "call_1", "content": "…"} after the call',
    "arguments_invalid": '"arguments": {"city": "Lyon"}, or "arguments": "{\\"city\\": \\"Lyon\\"}"',
    "legacy_function_call": '"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "…", '
                            '"arguments": {}}}], and "role": "tool" for its result',
    "answer_missing": '{"role": "assistant", "content": "…"} as the last message',
    "answer_empty": '{"role": "assistant", "content": "…"}',
    "tools_invalid": '"tools": [{"type": "function", "function": {"name": "…", "parameters": {}}}]; leave tools out of '
                     'a row that has none',
    "pair_incomplete": '{"prompt": [{"role": "user", "content": "…"}], "chosen": {"role": "assistant", "content": '
                       '"…"}, "rejected": {"role": "assistant", "content": "…"}}',
    "prompt_unfinished": '{"role": "user", "content": "…"} as the last message of the prompt, or the tool messages '
                         "that answer its last calls",
    "answer_not_a_message": '"chosen": {"role": "assistant", "content": "…"}',
    "answers_equal": "two answers that differ, the better one as chosen",
    "image_in_pair": '{"type": "text", "text": "…"}',
    "tool_invalid": '{"type": "function", "function": {"name": "…", "description": "…", "parameters": {}}}',
}


class RowRefused(ValueError):
    """A line is no chat row; `problems` says where and why."""

    def __init__(self, problems: list[Problem]):
        super().__init__(problems[0].message)
        self.problems = problems


def read_row(line: bytes) -> Row:
    """The chat row on a line. Raises RowRefused with everything wrong about it."""
    try:
        row = parse_line(line)
    except LineRefused as error:
        raise RowRefused([error.problem]) from None
    problems = check_row(row)
    if problems:
        raise RowRefused(problems)
    return dict(row)


def check_row(row: Any) -> list[Problem]:
    """Everything wrong with a parsed line, the first MAX_PROBLEMS of it; empty for a good row."""
    if not isinstance(row, dict):
        return [problem("", "not_an_object", "A row is a JSON object.")]
    problems = list(islice(_shape_problems(row), MAX_PROBLEMS))
    if problems:
        return problems
    messages = row["messages"]
    *earlier, _answer = messages
    return list(islice(calls_unanswered(messages, "messages", len(earlier)), MAX_PROBLEMS)) + _end_problems(messages)


def problem(path: str, code: str, message: str) -> Problem:
    return Problem(path, code, message, f"Right: {EXAMPLES[code]}.")


# Shape: each place on its own ----------------------------------------------------------------------------------------


def _shape_problems(row: Row) -> Iterator[Problem]:
    yield from tools_problems(row)
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        yield _messages_missing(row)
        return
    yield from messages_problems(messages, "messages")


def messages_problems(messages: list[Any], path: str) -> Iterator[Problem]:
    """What is wrong with each message of a list on its own."""
    for index, message in enumerate(messages):
        yield from message_problems(f"{path}[{index}]", message, is_first=index == 0)


def _messages_missing(row: Row) -> Problem:
    missing = problem("messages", "messages_missing", 'A row needs "messages": a list of chat messages, oldest first.')
    return advised(missing, next((advice for keys, advice in OTHER_SHAPES if keys <= row.keys()), ""))


def advised(found: Problem, advice: str) -> Problem:
    """The problem with advice before its example of the right form."""
    return Problem(found.path, found.code, found.message, f"{advice} {found.hint}".strip())


OTHER_SHAPES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"chosen", "rejected"}), "This is a preference pair; a dataset holds chat conversations or preference "
                                        "pairs, not both."),
    (frozenset({"prompt", "completion"}), "Write the prompt as a user message and the completion as an assistant one."),
    (frozenset({"instruction", "output"}), "Write the instruction as a user message, the output as an assistant one: "
                                           "`./optimize datasets import` does."),
    (frozenset({"conversations"}), "Rename conversations to messages; from and value are role and content; human and "
                                   "gpt are user and assistant: `./optimize datasets import` does."),
    (frozenset({"input_ids"}), "These are token rows; prepared token rows come as Parquet in a ZIP "
                              "archive, described by `./optimize datasets describe-prepared`."),
)


def message_problems(path: str, message: Any, *, is_first: bool) -> Iterator[Problem]:
    """What is wrong with one message on its own."""
    if not isinstance(message, dict):
        yield problem(path, "message_not_an_object", "A message is an object with a role and a content.")
        return
    role = message.get("role")
    if role not in ROLES:
        shown = clipped(json.dumps(role, ensure_ascii=False))
        yield problem(f"{path}.role", "role_unknown",
                      f"The role is {shown}; it must be system, user, assistant or tool.")
        return
    if role == "system" and not is_first:
        yield problem(f"{path}.role", "system_not_first", "A system message is the first message or none.")
    if message.get("function_call") is not None:
        yield problem(f"{path}.function_call", "legacy_function_call", "function_call is the old form of tool_calls.")
        return
    yield from _content_problems(path, message)
    yield from _tool_calls_problems(path, message)
    if role == "tool" and not _is_name(message.get("tool_call_id")):
        yield problem(f"{path}.tool_call_id", "tool_call_id_missing",
                      "A tool message names the call it answers in tool_call_id.")


def _content_problems(path: str, message: Row) -> Iterator[Problem]:
    content = message.get("content")
    if isinstance(content, str):
        return
    if content is None:
        if not (message["role"] == "assistant" and message.get("tool_calls")):
            yield problem(f"{path}.content", "content_missing", "The message has no content.")
    elif isinstance(content, list):
        for index, part in enumerate(content):
            yield from _part_problems(f"{path}.content[{index}]", part, message["role"])
    else:
        yield problem(f"{path}.content", "content_invalid", "The content is a text or a list of parts.")


def _part_problems(path: str, part: Any, role: str) -> Iterator[Problem]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return
    if kind == "image" and _is_name(part.get("path")):
        if role != "user":
            yield problem(path, "image_misplaced", "Only a user message may hold an image.")
        fault = path_fault(part["path"])
        if fault:
            yield problem(f"{path}.path", "image_path_invalid", f'The path "{clipped(part["path"])}" {fault}.')
        return
    yield problem(path, "content_part_invalid",
                  'A part is {"type": "text", "text": …} or {"type": "image", "path": …}.')


def path_fault(path: str) -> str:
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


def _tool_calls_problems(path: str, message: Row) -> Iterator[Problem]:
    calls, path = message.get("tool_calls"), f"{path}.tool_calls"
    if calls in (None, []):
        return
    if message["role"] != "assistant":
        yield problem(path, "tool_calls_misplaced", "Only an assistant message may call tools.")
    elif not isinstance(calls, list):
        yield problem(path, "tool_calls_invalid", "tool_calls is a list of calls.")
    else:
        problems = [problem for index, call in enumerate(calls) for problem in _call_problems(f"{path}[{index}]", call)]
        yield from problems or _ids_repeated(path, calls)


def _call_problems(path: str, call: Any) -> Iterator[Problem]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        yield problem(path, "tool_call_invalid",
                      'A call is {"id": …, "type": "function", "function": {"name": …, "arguments": {…}}}.')
        return
    if not _is_name(call.get("id")):
        yield problem(f"{path}.id", "tool_call_id_missing", "A call has an id.")
    if not _is_name(function.get("name")):
        yield problem(f"{path}.function.name", "tool_call_name_missing", "A call names its function.")
    if not isinstance(arguments_of(function.get("arguments")), dict):
        yield problem(f"{path}.function.arguments", "arguments_invalid",
                      "The arguments are a JSON object, or a string that holds one.")


def _ids_repeated(path: str, calls: list[Row]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, call in enumerate(calls):
        if call["id"] in seen:
            yield problem(f"{path}[{index}].id", "tool_call_id_repeated",
                          f'Two calls of one message share the id "{clipped(call["id"])}".')
        seen.add(call["id"])


def tools_problems(row: Row) -> Iterator[Problem]:
    """What is wrong with the tools a row offers."""
    tools = row.get("tools")
    if tools is not None and not isinstance(tools, list):
        yield problem("tools", "tools_invalid", "tools is a list of function definitions.")
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        if not _is_tool(tool):
            yield problem(f"tools[{index}]", "tool_invalid",
                          'A tool is {"type": "function", "function": {"name": …, …}}.')
    if row.get("functions") not in (None, []):
        yield problem("functions", "tools_invalid", "functions is the old form of tools.")


def _is_tool(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and tool.get("type") == "function" and _is_name(function.get("name"))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


# Sequence: the messages together -------------------------------------------------------------------------------------


def calls_unanswered(messages: list[Row], path: str, end: int) -> Iterator[Problem]:
    """Every call before the message at `end` is answered by a later tool message that names its id."""
    waiting: dict[str, str] = {}
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if waiting.pop(message["tool_call_id"], None) is None:
                yield _unknown_id(f"{path}[{index}]", message["tool_call_id"])
            continue
        if index == end:
            break
        for number, call in enumerate(message.get("tool_calls") or []):
            if call["id"] in waiting:
                yield _unanswered(waiting[call["id"]], call["id"])
            waiting[call["id"]] = f"{path}[{index}].tool_calls[{number}].id"
    for id_, place in waiting.items():
        yield _unanswered(place, id_)


def _unknown_id(path: str, id_: str) -> Problem:
    return problem(f"{path}.tool_call_id", "tool_call_id_unknown",
                   f'No call before this message waits for an answer to "{clipped(id_)}".')


def _unanswered(path: str, id_: str) -> Problem:
    return problem(path, "tool_call_unanswered", f'The call "{clipped(id_)}" is not answered by a tool message.')


def _end_problems(messages: list[Row]) -> list[Problem]:
    last, path = messages[-1], f"messages[{len(messages) - 1}]"
    if last["role"] != "assistant":
        return [problem(f"{path}.role", "answer_missing", f'The last message is from "{last["role"]}"; a row ends '
                        "with the assistant message to learn.")]
    if says_nothing(last):
        return [problem(f"{path}.content", "answer_empty", "The final assistant message is empty.")]
    return []


def says_nothing(message: Row) -> bool:
    """Whether a well-formed message has neither text nor a call."""
    return not message.get("tool_calls") and not text_of(message.get("content"))


# What a good row says ------------------------------------------------------------------------------------------------


def text_of(content: Any) -> str:
    """The text of a message's content, its parts joined."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


def arguments_of(arguments: Any) -> Any:
    """A call's arguments; written as a JSON string they are the value the string holds, None where it holds none."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return parse_text(arguments)
    except LineRefused:
        return None


def offers_tools(row: Row) -> bool:
    """Whether a good row offers tools."""
    return bool(row.get("tools"))


def answer_text(row: Row) -> str:
    """The text of a good row's final assistant message."""
    return text_of(row["messages"][-1].get("content"))


def images_of(row: Row) -> Iterator[tuple[str, str]]:
    """Each image of a good row: where its part stands, and the path it names."""
    for index, message in enumerate(row["messages"]):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else []):
            if part["type"] == "image":
                yield f"messages[{index}].content[{number}]", part["path"]
