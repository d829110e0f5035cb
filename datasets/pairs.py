"""The rule of a preference pair: a prompt with a better and a worse answer, their messages by the rule of chat rows.

Jobs keep the same rule on their side of the seam; one table of cases, tests/row_cases.json, holds the two together.
"""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from datasets.rows import (
    MAX_PROBLEMS,
    Row,
    RowRefused,
    advised,
    arguments_of,
    calls_unanswered,
    message_problems,
    messages_problems,
    problem,
    says_nothing,
    text_of,
    tools_problems,
)
from datasets.strict_json import LineRefused, parse_line
from optimize_site.kernel.errors import Problem

FORMAT = "preference-jsonl-v1"
ANSWERS = ("chosen", "rejected")

OTHER_SHAPES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"messages"}), "This is a chat row; a dataset holds chat conversations or preference pairs, not both."),
    (frozenset({"preferred_output"}), "`./optimize datasets import --as openai-dpo` turns these rows into pairs."),
    (frozenset({"chosen", "rejected"}), "Write what both answers reply to as the prompt."),
)


def read_pair(line: bytes) -> Row:
    """The preference pair on a line. Raises RowRefused with everything wrong about it."""
    try:
        row = parse_line(line)
    except LineRefused as error:
        raise RowRefused([error.problem]) from None
    problems = check_pair(row)
    if problems:
        raise RowRefused(problems)
    return dict(row)


def check_pair(row: Any) -> list[Problem]:
    """Everything wrong with a parsed line as a pair, the first MAX_PROBLEMS of it; empty for a good pair."""
    if not isinstance(row, dict):
        return [Problem("", "not_an_object", "A row is a JSON object.", problem("", "pair_incomplete", "").hint)]
    problems = list(islice(_shape_problems(row), MAX_PROBLEMS))
    return problems or list(islice(_sense_problems(row), MAX_PROBLEMS))


# Shape: each place on its own ----------------------------------------------------------------------------------------


def _shape_problems(row: Row) -> Iterator[Problem]:
    yield from tools_problems(row)
    prompt = row.get("prompt")
    if not isinstance(prompt, list) or not prompt:
        missing = problem("prompt", "pair_incomplete", 'A pair needs "prompt": a list of chat messages, oldest first.')
        yield advised(missing, next((advice for keys, advice in OTHER_SHAPES if keys <= row.keys()), ""))
    else:
        yield from messages_problems(prompt, "prompt")
    for name in ANSWERS:
        yield from _answer_problems(name, row.get(name))


def _answer_problems(name: str, answer: Any) -> Iterator[Problem]:
    if answer is None:
        yield problem(name, "pair_incomplete", f'A pair needs "{name}": one assistant message.')
    elif not isinstance(answer, dict) or answer.get("role") != "assistant":
        yield problem(name, "answer_not_a_message", f"{name} is one message of the assistant, an object with its role.")
    else:
        yield from message_problems(name, answer, is_first=False)


# Sense: the messages together ----------------------------------------------------------------------------------------


def _sense_problems(row: Row) -> Iterator[Problem]:
    prompt = row["prompt"]
    yield from calls_unanswered(prompt, "prompt", len(prompt))
    last = prompt[-1]["role"]
    if last not in ("user", "tool"):
        yield problem(f"prompt[{len(prompt) - 1}].role", "prompt_unfinished", f'The last message of the prompt is from '
                      f'"{last}"; a prompt ends with the message that both answers reply to.')
    yield from _images(prompt)
    for name in ANSWERS:
        if says_nothing(row[name]):
            yield problem(f"{name}.content", "answer_empty", f"The {name} answer is empty.")
    if said(row["chosen"]) == said(row["rejected"]):
        yield problem("rejected", "answers_equal", "chosen and rejected say the same; a pair prefers one to the other.")


def _images(prompt: list[Row]) -> Iterator[Problem]:
    for index, message in enumerate(prompt):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else []):
            if part["type"] == "image":
                yield problem(f"prompt[{index}].content[{number}]", "image_in_pair",
                              "The part is an image; a preference pair holds text.")


def said(answer: Row) -> tuple[str, list[tuple[str, str]]]:
    """What a well-formed answer says and calls, however it is written: its text, its calls in order."""
    calls = [call["function"] for call in answer.get("tool_calls") or []]
    # Written out, because Python takes 1 and true for equal.
    return text_of(answer.get("content")), [(call["name"], json.dumps(arguments_of(call["arguments"])))
                                            for call in calls]


def as_rows(pair: Row) -> Iterator[Row]:
    """The two chat rows that a good pair stands for: its prompt with each answer, the chosen one first."""
    for name in ANSWERS:
        yield {"messages": [*pair["prompt"], pair[name]], "tools": pair.get("tools")}
