"""Reads one line of JSON strictly: no duplicate key, no NaN, no bottomless nesting, no endless number."""

import re
from typing import Any

import orjson

from datasets.json_faults import MAX_DEPTH, MAX_NUMBER_DIGITS, Fault, children, fault_of
from optimize_site.kernel.errors import Problem

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_DIGIT = re.compile(rb"[0-9]")
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_NUMBER_DIGITS + 1))

HINTS = {
    "not_utf8": "Save the file as UTF-8, for instance `iconv -f WINDOWS-1252 -t UTF-8 FILE`.",
    "byte_order_mark": "Remove it; it is left over from joining files.",
    "nested_too_deep": "Flatten it; a row's own shape needs six levels.",
    "duplicate_key": "Keep one of the two; a reader could take either.",
    "not_a_number": 'Write null, or a text: "NaN".',
    "number_too_long": 'Write it as a text: "12345…".',
    "number_out_of_range": "Numbers reach to about 1.7e308; write a larger one as a text.",
    "nul_character": "Remove it; it is the remains of binary data, and no reader keeps it.",
    "lone_surrogate": r'Write the character itself or both halves: "\ud83d\ude00".',
}
CONTROL = r'Inside a text a new line is \n and a tab is \t: "first\nsecond".'
CUT_OFF = "One whole object stands on one line; the line ends before its object does."
MORE = "One object a line; start a new line for the next."
QUOTES = r'Keys and texts stand in double quotes; a double quote inside one is \": "say \"hello\"".'


class LineRefused(ValueError):
    """The bytes are not one strict JSON value; `problem` says why."""

    def __init__(self, problem: Problem):
        super().__init__(problem.message)
        self.problem = problem


def parse_line(line: bytes) -> Any:
    """The value a line holds. Raises LineRefused with the first thing wrong."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        refused = fault_of(line) or Fault("", "not_json", "The line is not JSON.")
        raise LineRefused(_problem(line, refused)) from None
    if _is_deep(line, value) or _may_repeat_keys(line, value) or _has_long_number(line) or b"\\u0000" in line:
        fault = fault_of(line)
        if fault is not None:
            raise LineRefused(_problem(line, fault))
    return value


def parse_text(text: str) -> Any:
    """The value a JSON text inside a row holds, by the same rule. Raises LineRefused."""
    return parse_line(text.encode())


def _problem(line: bytes, fault: Fault) -> Problem:
    return Problem(*fault, HINTS.get(fault.code) or _hint(line, fault.message))


def _hint(line: bytes, message: str) -> str:
    if "control character" in message:
        return CONTROL
    if message.endswith(f"at character {len(line.decode()) + 1}.") or "Unterminated" in message:
        return CUT_OFF
    return MORE if "Extra data" in message else QUOTES


# What the parser lets through ----------------------------------------------------------------------------------------


def _may_repeat_keys(line: bytes, value: Any) -> bool:
    # Writing a parsed object again loses one colon with every repeated key and no other way: the colons inside strings
    # are written as they were read, unless the line spells one as an escape, which takes the slow path.
    return line.count(b":") != orjson.dumps(value).count(b":") or b"u003a" in line or b"u003A" in line


def _has_long_number(line: bytes) -> bool:
    # So long a run of digits covers one of the places that far apart: a look at those spares most lines the search.
    if _DIGIT.search(line[::MAX_NUMBER_DIGITS + 1]) is None or _LONG_NUMBER.search(line) is None:
        return False
    return _LONG_NUMBER.search(_STRING.sub(b"", line)) is not None


def _is_deep(line: bytes, value: Any) -> bool:
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for holder in level for _, item in children(holder) if isinstance(item, dict | list)]
        if not level:
            return False
    return True
