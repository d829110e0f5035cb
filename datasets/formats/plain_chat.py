"""Takes in plain chat rows fast: every message one of text, nothing beside role and content.

A line is taken only where it is good beyond doubt; the full rule looks at every other. The parser is as strict as the
full rule's (control characters, lone surrogates, UTF-8, trailing commas). What it lets through shows otherwise: a key
written twice as a colon too many, U+0000 in the texts. Many lines are looked at together, because asking Python once a
thousand lines costs next to nothing and once a line costs as much as parsing it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from operator import attrgetter, sub
from types import GenericAlias
from typing import cast

import msgspec

from datasets.findings import Findings, odd_turns, plain_prompt
from datasets.statistics import MAX_TURNS, Statistics

MAX_SHAPES = 1000

# An escaped colon would hide a key's from counting.
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")


class Message(msgspec.Struct, tag_field="role", forbid_unknown_fields=True, gc=False):
    """A message of text; its type is its role."""

    content: str


class System(Message, tag="system"):
    """Comes first or not at all."""


class User(Message, tag="user"):
    """Asks."""


class Assistant(Message, tag="assistant"):
    """Answers."""


class PlainRow(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A row of nothing but messages."""

    messages: tuple[System | User | Assistant, ...]


Types = tuple[type[Message], ...]
ROLES: dict[type[Message], str] = {System: "system", User: "user", Assistant: "assistant"}

Decode = Callable[[bytes], PlainRow]

_decode: Decode = msgspec.json.Decoder(PlainRow).decode
_messages, _content = attrgetter("messages"), attrgetter("content")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the roles of a row say by themselves; `asked` is how its prompt's fingerprint begins."""

    is_good: bool
    roles: tuple[str, ...]
    asked: str
    num_colons: int
    odd: tuple[str, ...]


class PlainChat:
    """Takes lines into statistics and findings."""

    def __init__(self, statistics: Statistics, findings: Findings):
        self.statistics, self.findings = statistics, findings
        self._shapes: dict[Types, Shape] = {}
        self._usual: tuple[Types, Decode] | None = None

    def take(self, lines: Sequence[bytes], first: int) -> list[int]:
        """Take in the plain rows among `lines`, numbered from `first`; gives the places of the others."""
        messages, shapes, places = self._decoded(lines)
        known = self._known(shapes)
        taken = lines if len(places) == len(lines) else [lines[place] for place in places]
        if not _are_good(taken, messages, Counter(shapes), known):
            good = [index for index, row in enumerate(messages)
                    if _are_good([taken[index]], [row], {shapes[index]: 1}, known)]
            places = [places[index] for index in good]
            messages, shapes = [messages[index] for index in good], [shapes[index] for index in good]
        self._count(messages, shapes, known)
        self._notice(messages, shapes, known, [first + place for place in places])
        return [] if len(places) == len(lines) else sorted(set(range(len(lines))).difference(places))

    def _decoded(self, lines: Sequence[bytes]) -> tuple[list[tuple[Message, ...]], list[Types], Sequence[int]]:
        """The messages and the roles of the lines that are shaped like plain rows, and where these stand.

        Rows of one file tend to have the same roles: those of the last lines are tried first, for all lines together.
        """
        if self._usual is not None:
            types, decode = self._usual
            try:
                return list(map(_messages, map(decode, lines))), [types] * len(lines), range(len(lines))
            except msgspec.DecodeError:
                self._usual = None
        rows, places = _decodable(lines)
        messages = list(map(_messages, rows))
        shapes = [tuple(map(type, row)) for row in messages]
        if len(shapes) == len(lines) and shapes.count(shapes[0]) == len(shapes):
            self._usual = shapes[0], _decoder_of(shapes[0])
        return messages, shapes, places

    def _known(self, shapes: list[Types]) -> dict[Types, Shape]:
        if len(self._shapes) > MAX_SHAPES:
            self._shapes = {}
        for types in set(shapes).difference(self._shapes):
            self._shapes[types] = shape_of(types)
        return self._shapes

    def _count(self, messages: list[tuple[Message, ...]], shapes: list[Types], known: dict[Types, Shape]) -> None:
        statistics = self.statistics
        statistics.num_rows += len(messages)
        for types, rows in Counter(shapes).items():
            statistics.turns[min(known[types].roles.count("user"), MAX_TURNS)] += rows
            statistics.num_system_rows += rows * (types[0] is System)
        statistics.row_lengths.add_all(_lengths(messages))
        for answer, rows in Counter([row[-1].content for row in messages]).items():
            statistics.add_answer(answer, rows)

    def _notice(self, messages: list[tuple[Message, ...]], shapes: list[Types], known: dict[Types, Shape],
                lines: list[int]) -> None:
        if any(known[types].odd for types in set(shapes)):
            for types, line in zip(shapes, lines, strict=True):
                self.findings.note(known[types].odd, line)
        compared = messages[:self.findings.num_to_compare]
        asked = ("\0".join([known[types].asked, *map(_content, row[:-1])])
                 for row, types in zip(compared, shapes, strict=False))
        self.findings.compare_all(map(str.encode, asked), (row[-1].content.encode() for row in compared),
                                  lines[:len(compared)])


def _lengths(messages: list[tuple[Message, ...]]) -> Iterator[int]:
    """The characters of each row, as what their sum grew by from row to row."""
    sums = list(accumulate(map(len, map(_content, chain.from_iterable(messages)))))
    ends = [sums[end - 1] for end in accumulate(map(len, messages))]
    return map(sub, ends, [0, *ends])


@lru_cache(maxsize=64)
def _decoder_of(types: Types) -> Decode:
    """What decodes rows of these roles and no others."""
    fields = [("messages", GenericAlias(tuple, types))]
    row = msgspec.defstruct("RowOfRoles", fields, forbid_unknown_fields=True, gc=False)
    return cast(Decode, msgspec.json.Decoder(row).decode)


def _decodable(lines: Sequence[bytes]) -> tuple[list[PlainRow], Sequence[int]]:
    """The rows among the lines that are shaped like plain ones, and where they stand."""
    try:
        return list(map(_decode, lines)), range(len(lines))
    except msgspec.DecodeError:
        rows, places = list[PlainRow](), list[int]()
    for place, line in enumerate(lines):
        try:
            rows.append(_decode(line))
        except msgspec.DecodeError:
            continue
        places.append(place)
    return rows, places


def _are_good(lines: Sequence[bytes], messages: list[tuple[Message, ...]], shapes: Mapping[Types, int],
              known: Mapping[Types, Shape]) -> bool:
    """Whether every one of these rows is good, beyond doubt; `shapes` counts them."""
    if not all(known[types].is_good for types in shapes) or not all(row[-1].content for row in messages):
        return False
    text, written = "".join(map(_content, chain.from_iterable(messages))), b"".join(lines)
    num_keys = sum(known[types].num_colons * rows for types, rows in shapes.items())
    return ("\0" not in text and written.count(b":") == num_keys + text.count(":")
            and (b"\\u003" not in written or not _ESCAPED_COLON.search(written)))


def shape_of(types: Types) -> Shape:
    """What these roles say, for messages of text alone."""
    roles = tuple(ROLES[kind] for kind in types)
    is_good = roles[-1:] == ("assistant",) and "system" not in roles[1:]
    return Shape(is_good, roles, plain_prompt(roles), 1 + 2 * len(roles), tuple(odd_turns(roles)) if is_good else ())
