"""Marks by which other tools say whether a message is trained, such as OpenAI's `weight: 0`.

A row has no such mark: its last message is trained, the answers before it where a run's `loss.assistantTurns` is `all`.
So what the marks say is kept where that is the same, and reported or refused where it is not.
"""

from typing import Any

from datasets.importers.records import Record, RecordRefused, Row
from datasets.rows import FORMAT as CHAT

MARKS = ("weight", "train", "training", "loss")


def without_marks(record: Record, messages: list[Any], *, are_prompt: bool = False) -> list[Any]:
    """The messages without marks. Raises RecordRefused where the last one, unless of a prompt, is not to be trained."""
    return [_without(record, index, message, is_last=index == len(messages) - 1 and not are_prompt)
            if isinstance(message, dict) else message for index, message in enumerate(messages)]


def _without(record: Record, index: int, message: Row, *, is_last: bool) -> Row:
    marks = {name: message[name] for name in MARKS if name in message and _is_mark(name, message[name])}
    for name, mark in marks.items():
        if mark is not None:
            record.report.drop(f"messages.{name}", record.place)
            _heed(record, f"messages[{index}].{name}", message, mark, is_last=is_last)
    return {key: value for key, value in message.items() if key not in marks}


def _is_mark(name: str, value: Any) -> bool:
    """Whether a value is a mark: a weight in any case; other names may hold something else, and are kept then."""
    return name == "weight" or isinstance(value, bool) or value is None


def _heed(record: Record, path: str, message: Row, mark: Any, *, is_last: bool) -> None:
    if mark not in (0, 1):
        raise RecordRefused(path, "mark_unclear", f"The weight is {str(mark)[:60]}; a message is trained (1) or "
                            "not (0).")
    if mark or message.get("role") != "assistant" or record.report.format != CHAT:
        return
    if is_last:
        raise RecordRefused(path, "answer_untrained", "The last message is marked as not to be trained, and the last "
                            "message of a row always is.", "End the record with the last message that is to be "
                            "learned, or leave it out with --skip-refused.")
    record.change("untrained_messages")
