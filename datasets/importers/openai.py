"""Records as OpenAI's fine-tuning takes them: chat, preference (dpo) and reinforcement (rft) rows."""

import json
from typing import Any

from datasets.importers.marks import without_marks
from datasets.importers.media import with_images
from datasets.importers.records import IMAGES, Record, RecordRefused, Row, row_of, tools_of

REFERENCE = "reference_answer"
CHAT_FIELDS = {"messages", "tools", "functions"}
EMPTY_IF_NULL = ("refusal", "audio", "annotations", "function_call", "tool_calls", "name")


def chat(record: Record) -> Row:
    """`{"messages", "tools"?, "parallel_tool_calls"?}`; messages may be of the old function form."""
    messages = with_images(record, messages_of(record, record.fields.get("messages")))
    tools = _tools(record, record.fields)
    return row_of(messages, tools, record.drop_others({*CHAT_FIELDS, *IMAGES}))


def dpo(record: Record) -> Row:
    """`{"input": {"messages", "tools"?}, "preferred_output": [message], "non_preferred_output": [message]}`."""
    asked = record.fields.get("input")
    if not isinstance(asked, dict):
        raise RecordRefused("input", "prompt_missing", "A record has an input with the messages of its prompt.")
    for name in asked.keys() - CHAT_FIELDS:
        record.report.drop(f"input.{name}", record.place)
    row: Row = {"prompt": messages_of(record, asked.get("messages"))}
    tools = _tools(record, asked)
    if tools:
        row["tools"] = tools
    for name, source in (("chosen", "preferred_output"), ("rejected", "non_preferred_output")):
        answers = messages_of(record, record.fields.get(source))
        if len(answers) != 1:
            raise RecordRefused(source, "several_messages", f"{source} holds {len(answers)} messages; a pair compares "
                                "one with one.", "Put what both share into the prompt.")
        row[name] = answers[0]
    return row | record.drop_others({"input", "preferred_output", "non_preferred_output"})


def rft(record: Record) -> Row:
    """`{"messages": […ending with the user], "reference_answer": …, others}`: the answer becomes the last message."""
    source = record.mapping.get("assistant", REFERENCE)
    if record.fields.get(source) is None:
        others = ", ".join(name for name in record.fields if name not in CHAT_FIELDS) or "none"
        raise RecordRefused(source, "answer_missing", f"The record has no {source}; its other fields are {others}.",
                            "Name the field that holds the expected answer: --map assistant=FIELD.")
    answer = record.fields[source]
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    record.change("answer_added")
    asked = with_images(record, messages_of(record, record.fields.get("messages"), are_prompt=True))
    messages = [*asked, {"role": "assistant", "content": text}]
    columns = {name: value for name, value in record.fields.items() if name not in {*CHAT_FIELDS, *IMAGES, source}}
    return row_of(messages, _tools(record, record.fields), columns)


def messages_of(record: Record, messages: Any, *, are_prompt: bool = False) -> list[Row]:
    """Messages as the registry writes them; what is wrong with one beyond its spelling is left for the row rule."""
    if not isinstance(messages, list):
        raise RecordRefused("messages", "messages_missing", "The record has no list of messages.")
    waiting: list[str] = []
    unmarked = without_marks(record, messages, are_prompt=are_prompt)
    return [_message(record, index, message, waiting) for index, message in enumerate(unmarked)]


def _message(record: Record, index: int, message: Any, waiting: list[str]) -> Any:
    if not isinstance(message, dict):
        return message
    plain = {key: value for key, value in message.items() if value is not None or key not in EMPTY_IF_NULL}
    if plain.get("role") == "developer":
        record.change("developer_role")
        plain["role"] = "system"
    if "function_call" in plain:
        record.change("function_call")
        name = f"call_{index}"
        waiting.append(name)
        plain["tool_calls"] = [{"id": name, "type": "function", "function": plain.pop("function_call")}]
    if plain.get("role") == "function":
        record.change("function_role")
        plain |= {"role": "tool", "tool_call_id": waiting.pop(0) if waiting else ""}
    return plain


def _tools(record: Record, fields: Any) -> list[Any] | None:
    if fields.get("functions"):
        record.change("functions")
        return tools_of(record, fields["functions"])
    return tools_of(record, fields.get("tools"))
