"""Why a line is no strict JSON, in the words that the registry uses as well: the same search on both sides of the seam.

It runs only over lines that are refused already, so it may take its time; tests/row_cases.json and the fuzzer hold it
and `datasets.json_faults` to the same answer.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_DEPTH = 100
MAX_NUMBER_DIGITS = 1000
SHOWN_CHARACTERS = 60
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(rb"[\[\]{}]")
_LONG_NUMBER = re.compile(f"[0-9]{{{MAX_NUMBER_DIGITS + 1}}}")


class Fault(NamedTuple):
    """What is wrong with a line: where in it, a stable code, a sentence."""

    path: str
    code: str
    message: str


class Repeated:
    """Stands where an object wrote one key twice."""

    def __init__(self, key: str, value: dict[str, Any]) -> None:
        self.key, self.value = key, value


class Number(str):
    """A number as it is written."""


class Constant(str):
    """NaN or an infinity."""


def fault_of(line: bytes) -> Fault | None:
    """The first thing wrong with a line as strict JSON, in reading order once it is JSON at all; None for nothing."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        found = f"Byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8."
        return Fault("", "not_utf8", found)
    if line.startswith(BYTE_ORDER_MARK):
        return Fault("", "byte_order_mark", "A byte order mark stands inside the file; one may only open it.")
    if _depth(line) > MAX_DEPTH:
        return Fault("", "nested_too_deep", f"The line nests more than {MAX_DEPTH} levels deep.")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at")
        return Fault("", "not_json", f"The line is not JSON: {reason}, at character {error.colno}.")
    return next(_faults(value, ""), None)


def _depth(line: bytes) -> int:
    """How deep brackets outside of texts nest."""
    deepest = depth = 0
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _marked(pairs: list[tuple[str, Any]]) -> Any:
    value: dict[str, Any] = {}
    repeated = None
    for key, item in pairs:
        if key in value and repeated is None:
            repeated = key
        value[key] = item
    return value if repeated is None else Repeated(repeated, value)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_marked, parse_int=Number, parse_float=Number, parse_constant=Constant
)


def _faults(value: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, Repeated):
        message = f'The key "{clipped(value.key)}" appears twice in one object.'
        yield Fault(join(path, value.key), "duplicate_key", message)
    elif isinstance(value, Constant):
        yield Fault(path, "not_a_number", "NaN and Infinity are not JSON.")
    elif isinstance(value, Number):
        yield from _number_faults(value, path)
    elif isinstance(value, str):
        yield from _text_faults(value, path)
    for step, item in children(value):
        if isinstance(step, str):
            yield from _text_faults(step, path)
        yield from _faults(item, join(path, step))


def _number_faults(text: str, path: str) -> Iterator[Fault]:
    if _LONG_NUMBER.search(text):
        yield Fault(path, "number_too_long", f"A number has more than {MAX_NUMBER_DIGITS} digits.")
    elif math.isinf(float(text)):
        yield Fault(path, "number_out_of_range", "A number is too large.")


def _text_faults(text: str, path: str) -> Iterator[Fault]:
    if "\0" in text:
        yield Fault(path, "nul_character", "The text holds the character U+0000.")
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        yield Fault(path, "lone_surrogate", "Half of a surrogate pair stands alone.")


def children(value: Any) -> Iterator[tuple[str | int, Any]]:
    """The steps into a value, and what lies there."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def join(path: str, step: str | int) -> str:
    """The path one step further in."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    return f"{path}.{clipped(step)}" if path else clipped(step)


def clipped(text: str) -> str:
    """A text short enough to quote in a sentence; half of a surrogate pair, which nothing can write, as its escape."""
    short = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return short.encode(errors="backslashreplace").decode()
