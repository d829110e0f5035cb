"""Records as TRL's datasets write them, plain or of messages: prompt and completion, labelled ones, preference pairs.

Its records of `messages` are those of OpenAI's chat, so `openai` reads them.
"""

from typing import Any

from datasets.importers.media import with_images
from datasets.importers.openai import messages_of
from datasets.importers.records import IMAGES, Record, RecordLeftOut, RecordRefused, Row, row_of, tools_of, with_system
from datasets.importers.table import shown

COMPLETIONS = ("completion", "answer", "response", "output")


def prompt_completion(record: Record) -> Row:
    """`{"prompt", "completion", "system"?, "tools"?}`, texts or messages. Raises RecordRefused for a prompt alone."""
    return _completed(record, set())


def unpaired(record: Record) -> Row:
    """`{"prompt", "completion", "label"}`: a row where the label is true. Raises RecordLeftOut where it is false."""
    label = record.fields.get("label")
    if not isinstance(label, bool):
        raise RecordRefused("label", "label_invalid", f"The label is {shown(label)[:60] or 'missing'}; it is true "
                            "of a completion to learn, false of one that is not.")
    if not label:
        raise RecordLeftOut("labelled_false")
    return _completed(record, {"label"})


def _completed(record: Record, used: set[str]) -> Row:
    asked = record.mapping.get("user", "prompt")
    answered = record.mapping.get("assistant") or next((name for name in COMPLETIONS if name in record.fields), "")
    prompt, completion = (record.fields.get(name) for name in (asked, answered))
    if prompt in (None, "", []):
        raise RecordRefused(asked, "prompt_missing", f"The record has no {asked}.")
    if completion is None:
        others = ", ".join(name for name in record.fields if name != asked) or "none"
        raise RecordRefused(answered or "completion", "answer_missing", "The record has a prompt and no completion; "
                            f"its other fields are {others[:200]}.", "A row ends with the answer to learn or to "
                            "compare with. Name the field that holds it: --map assistant=FIELD.")
    answers = _messages(record, completion, "assistant")
    if sum(isinstance(answer, dict) and answer.get("role") == "assistant" for answer in answers) > 1:
        record.change("completion_turns")
    asked_for = with_images(record, _messages(record, prompt, "user"))
    messages = with_system(record, record.fields.get("system"), asked_for + answers)
    return row_of(messages, tools_of(record, record.fields.get("tools")),
                  record.drop_others({asked, answered, "system", "tools", *IMAGES, *used}))


def preference(record: Record) -> Row:
    """`{"prompt"?, "chosen", "rejected"}`, each a text or a list of messages; what both answers share is the prompt."""
    names = {part: record.mapping.get(part, part) for part in ("prompt", "chosen", "rejected")}
    sides = [_side(record, names[part]) for part in ("chosen", "rejected")]
    prompt = record.fields.get(names["prompt"])
    if not prompt and all(isinstance(record.fields[names[part]], str) for part in ("chosen", "rejected")):
        raise RecordRefused(names["prompt"], "pair_incomplete", "The record has no prompt, and as both answers are "
                            "texts nothing tells where a prompt in them ends.", "Take the prompt out of both answers "
                            "and give it a column of its own: prompt.")
    asked = _messages(record, prompt, "user") if prompt else _shared(record, sides)
    answers = [side[len(asked):] if side[:len(asked)] == asked else side for side in sides]
    if any(len(answer) != 1 for answer in answers):
        raise RecordRefused("chosen", "several_messages", "chosen and rejected differ by more than one message; a pair "
                            "compares one with one.")
    row: Row = {"prompt": with_system(record, record.fields.get("system"), asked)}
    tools = tools_of(record, record.fields.get("tools"))
    if tools:
        row["tools"] = tools
    columns = record.drop_others({*names.values(), "system", "tools"})
    return row | {"chosen": answers[0][0], "rejected": answers[1][0]} | columns


def _side(record: Record, name: str) -> list[Row]:
    value = record.fields.get(name)
    if value in (None, "", []):
        raise RecordRefused(name, "pair_incomplete", f"The record has no {name} answer.")
    return _messages(record, value, "assistant")


def _messages(record: Record, value: Any, role: str) -> list[Row]:
    if isinstance(value, str):
        record.change("text_prompt")
        return [{"role": role, "content": value}]
    if isinstance(value, list) or (isinstance(value, dict) and "role" in value):
        return messages_of(record, value if isinstance(value, list) else [value], are_prompt=role == "user")
    return [{"role": role, "content": shown(value)}]


def _shared(record: Record, sides: list[list[Row]]) -> list[Row]:
    """The messages with which both sides begin."""
    record.change("prompt_split")
    shared = 0
    while shared < min(map(len, sides)) - 1 and sides[0][shared] == sides[1][shared]:
        shared += 1
    return sides[0][:shared]
