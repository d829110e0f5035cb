"""Reads one line of JSON strictly: no duplicate key, no NaN, no bottomless nesting, no endless number."""

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from optimize_site.kernel.errors import Problem

MAX_DEPTH = 100
MAX_NUMBER_DIGITS = 1000
SHOWN_CHARACTERS = 60

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_DIGIT = re.compile(rb"[0-9]")
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_NUMBER_DIGITS + 1))
_NOT_JSON_NUMBER = re.compile(r"-?(?:NaN|Infinity|nan|inf|Inf)\b")


class LineRefused(ValueError):
    """The bytes are not one strict JSON value; `problem` says why."""

    def __init__(self, problem: Problem):
        super().__init__(problem.message)
        self.problem = problem


class Repeated:
    """Stands where an object wrote one key twice, so that the object's place can be found."""

    def __init__(self, key: str, value: dict[str, Any]):
        self.key, self.value = key, value


def parse_line(line: bytes) -> Any:
    """The value a line holds. Raises LineRefused with the first thing wrong."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise LineRefused(_explain(line, error)) from None
    _refuse_depth(line, value)
    written = orjson.dumps(value)
    _refuse_repeated_keys(line, written)
    _refuse_long_numbers(line)
    _refuse_nul(line, value)
    return value


def parse_text(text: str) -> Any:
    """The value a JSON text inside a row holds, by the same rule. Raises LineRefused."""
    return parse_line(text.encode())


def clipped(text: str) -> str:
    """A text short enough to quote in a sentence."""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


# What the parser lets through ----------------------------------------------------------------------------------------


def _refuse_repeated_keys(line: bytes, written: bytes) -> None:
    # Writing a parsed object again loses one colon with every repeated key and no other way: the colons inside strings
    # are written as they were read, unless the line spells one as an escape, which takes the slow path.
    if line.count(b":") == written.count(b":") and b"u003a" not in line and b"u003A" not in line:
        return
    try:
        value = json.loads(line, object_pairs_hook=_mark_repeated, parse_int=str, parse_float=str)
        found = next(_repeated(value, ""), None)
    except RecursionError:
        # Only a value that a later key replaced can be this deep here.
        raise LineRefused(_too_deep()) from None
    if found is not None:
        path, key = found
        raise LineRefused(Problem(path, "duplicate_key", f'The key "{clipped(key)}" appears twice in one object.',
                                  "Keep one of the two; a reader could take either."))


def _mark_repeated(pairs: list[tuple[str, Any]]) -> Any:
    value: dict[str, Any] = {}
    repeated = ""
    is_repeated = False
    for key, item in pairs:
        if key in value and not is_repeated:
            repeated, is_repeated = key, True
        value[key] = item
    return Repeated(repeated, value) if is_repeated else value


def _repeated(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Where, in reading order, an object wrote a key twice: its path with the key, and the key."""
    if isinstance(value, Repeated):
        yield (f"{path}.{value.key}" if path else value.key), value.key
    for step, item in children(value):
        yield from _repeated(item, join(path, step))


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


def _refuse_long_numbers(line: bytes) -> None:
    # So long a run of digits covers one of the places that far apart: a look at those spares most lines the search.
    if _DIGIT.search(line[::MAX_NUMBER_DIGITS + 1]) is None or _LONG_NUMBER.search(line) is None:
        return
    if _LONG_NUMBER.search(_STRING.sub(b"", line)) is not None:
        raise LineRefused(_long_number())


def _long_number() -> Problem:
    return Problem("", "number_too_long", f"A number has more than {MAX_NUMBER_DIGITS} digits.",
                   'Write it as a text: "12345…".')


def _refuse_depth(line: bytes, value: Any) -> None:
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for holder in level for _, item in children(holder) if isinstance(item, dict | list)]
        if not level:
            return
    raise LineRefused(_too_deep())


def _too_deep() -> Problem:
    return Problem("", "nested_too_deep", f"The line nests more than {MAX_DEPTH} levels deep.",
                   "Flatten it; a row's own shape needs six levels.")


def _refuse_nul(line: bytes, value: Any) -> None:
    if b"\\u0000" not in line:
        return
    path = next(_nul_paths(value, ""), None)
    if path is not None:
        raise LineRefused(Problem(path, "nul_character", "The text holds the character U+0000.",
                                  "Remove it; it is the remains of binary data, and no reader keeps it."))


def _nul_paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and "\0" in value:
        yield path
    for step, item in children(value):
        if isinstance(step, str) and "\0" in step:
            yield path
        yield from _nul_paths(item, join(path, step))


# What the parser refuses, in words -----------------------------------------------------------------------------------


def _explain(line: bytes, error: orjson.JSONDecodeError) -> Problem:
    return _encoding_problem(line) or _number_problem(line, error) or _shape_problem(line, error)


def _encoding_problem(line: bytes) -> Problem | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return Problem("", "not_utf8", f"Byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not "
                       "UTF-8.", "Save the file as UTF-8, for instance `iconv -f WINDOWS-1252 -t UTF-8 FILE`.")
    if line.startswith(b"\xef\xbb\xbf"):
        return Problem("", "byte_order_mark", "A byte order mark stands inside the file; one may only open it.",
                       "Remove it; it is left over from joining files.")
    return None


def _number_problem(line: bytes, error: orjson.JSONDecodeError) -> Problem | None:
    bare = _STRING.sub(b'""', line)
    if _LONG_NUMBER.search(bare) is not None:
        return _long_number()
    if "infinity" in error.msg:
        return Problem("", "number_out_of_range", f"A number at character {error.pos + 1} is too large.",
                       "Numbers reach to about 1.7e308; write a larger one as a text.")
    word = _NOT_JSON_NUMBER.search(line.decode(), max(0, error.pos - 1))
    if word is not None and word.start() <= error.pos:
        return Problem("", "not_a_number", "NaN and Infinity are not JSON.", 'Write null, or a text: "NaN".')
    return None


def _shape_problem(line: bytes, error: orjson.JSONDecodeError) -> Problem:
    if "depth limit" in error.msg:
        return _too_deep()
    if "surrogate" in error.msg:
        return Problem("", "lone_surrogate", f"At character {error.pos + 1} half of a surrogate pair stands alone.",
                       r'Write the character itself or both halves: "\ud83d\ude00".')
    return Problem("", "not_json", f"The line is not JSON: {error.msg.split(': line ')[0]}, at character "
                   f"{error.pos + 1}.", _json_hint(error.msg))


def _json_hint(reason: str) -> str:
    if "control character" in reason:
        return r'Inside a text a new line is \n and a tab is \t: "first\nsecond".'
    if "unexpected end" in reason:
        return "One whole object stands on one line; the line ends before its object does."
    if "after document" in reason:
        return "One object a line; start a new line for the next."
    return r'Keys and texts stand in double quotes; a double quote inside one is \": "say \"hello\"".'
