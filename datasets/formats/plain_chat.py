"""Takes in plain chat rows fast: every message one of text, nothing beside role and content.

A line is taken only where it is good beyond doubt; the full rule looks at every other. The parser is as strict as the
full rule's (control characters, lone surrogates, UTF-8, trailing commas). What it lets through shows in the bytes. Most
are what the rows are written as, and nothing else; in others a key written twice shows in how often it stands there,
U+0000 as an escape. Many lines are looked at together, because asking Python once a thousand lines costs next to
nothing and once a line costs as much as parsing it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import chain, repeat
from operator import add, attrgetter, itemgetter
from types import GenericAlias
from typing import cast

import msgspec

from datasets.findings import Findings, odd_turns, plain_prompt
from datasets.formats.writing import Writing
from datasets.lines import Batch
from datasets.statistics import MAX_TURNS, Statistics

MAX_SHAPES = 1000
PUT_OFF = 15
"""So many pieces are not written anew behind one that was written otherwise: a writer has its ways."""
OPENING = b'{"messages"'

# U+0000, and the letters and quotes whose escapes would hide a key from counting.
_HIDING = re.compile(rb"\\u00(?:00|22|[67])")


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


Messages = tuple[Message, ...]
Types = tuple[type[Message], ...]
ROLES: dict[type[Message], str] = {System: "system", User: "user", Assistant: "assistant"}

Decoder = msgspec.json.Decoder[PlainRow]

_any_roles: Decoder = msgspec.json.Decoder(PlainRow)
_messages, _content, _last = attrgetter("messages"), attrgetter("content"), itemgetter(-1)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the roles of a row say by themselves; `asked` is how its prompt's fingerprint begins."""

    is_good: bool
    roles: tuple[str, ...]
    asked: str
    odd: tuple[str, ...]


class Usual:
    """What rows of these roles and no others are decoded by, and how they are written."""

    def __init__(self, types: Types):
        self.types, self.shape, self.decoder = types, shape_of(types), _decoder_of(types)
        self._writing, self._put_off = Writing(self.shape.roles), 0

    def texts(self, written: bytes) -> list[list[str]] | None:
        """The texts of each message in turn, those of all rows, where the lines are good rows beyond doubt."""
        if self._put_off:
            self._put_off -= 1
            return None
        try:
            rows = self.decoder.decode_lines(written)
        except msgspec.DecodeError:
            return None
        texts = [list(map(_content, column)) for column in zip(*map(_messages, rows), strict=True)]
        is_good = bool(rows) and all(texts[-1]) and self._writing.is_of(written, texts)
        is_good = is_good and not any(map(_holds_nul, texts))
        self._put_off = 0 if is_good else PUT_OFF
        return texts if is_good else None


class PlainChat:
    """Takes lines into statistics and findings."""

    def __init__(self, statistics: Statistics, findings: Findings):
        self.statistics, self.findings = statistics, findings
        self._shapes: dict[Types, Shape] = {}
        self._usual: Usual | None = None

    def take(self, batch: Batch) -> list[int]:
        """Take in the plain rows among the lines; gives the places of the others."""
        texts = self._usual.texts(batch.written) if self._usual is not None else None
        if self._usual is not None and texts is not None:
            self._take_usual(self._usual.shape, texts, batch.first)
            return []
        messages, shapes, places = self._decoded(batch)
        known = self._known(shapes)
        is_whole = len(places) == batch.num_lines
        taken = batch.written if is_whole else b"\n".join([batch.lines[place] for place in places])
        if not _are_good(taken, messages, shapes, known):
            good = [index for index, row in enumerate(messages)
                    if _are_good(batch.lines[places[index]], [row], [shapes[index]], known)]
            places = [places[index] for index in good]
            messages, shapes = [messages[index] for index in good], [shapes[index] for index in good]
        self._count(messages, shapes, known)
        self._notice(messages, shapes, known, [batch.first + place for place in places])
        return [] if len(places) == batch.num_lines else sorted(set(range(batch.num_lines)).difference(places))

    def _take_usual(self, shape: Shape, texts: list[list[str]], first: int) -> None:
        """Take in good rows of one shape from line `first` on, one a line."""
        lines = range(first, first + len(texts[0]))
        self._count_texts(shape, texts)
        if shape.odd:
            for line in lines:
                self.findings.note(shape.odd, line)
        compared = lines[:max(0, self.findings.num_to_compare)]
        number = len(compared)
        if number:
            asked = map("\0".join, zip(repeat(shape.asked, number), *(column[:number] for column in texts[:-1]),
                                       strict=True))
            self.findings.compare_all(map(str.encode, asked), map(str.encode, texts[-1][:number]), compared)

    def _decoded(self, batch: Batch) -> tuple[list[Messages], list[Types], Sequence[int]]:
        """The messages and the roles of the lines that are shaped like plain rows, and where these stand.

        Rows of one file tend to have the same roles: those of the last lines are tried first, for all lines together.
        """
        if self._usual is not None:
            rows = _all_decoded(batch, self._usual.decoder)
            if rows is not None:
                return list(map(_messages, rows)), [self._usual.types] * len(rows), range(len(rows))
            self._usual = None
        rows, places = _decodable(batch)
        messages = list(map(_messages, rows))
        shapes = [tuple(map(type, row)) for row in messages]
        if len(shapes) == batch.num_lines and shapes.count(shapes[0]) == len(shapes) and shape_of(shapes[0]).is_good:
            self._usual = Usual(shapes[0])
        return messages, shapes, places

    def _known(self, shapes: list[Types]) -> dict[Types, Shape]:
        if len(self._shapes) > MAX_SHAPES:
            self._shapes = {}
        for types in set(shapes).difference(self._shapes):
            self._shapes[types] = shape_of(types)
        return self._shapes

    def _count(self, messages: list[Messages], shapes: list[Types], known: dict[Types, Shape]) -> None:
        for types, rows in _by_shape(messages, shapes):
            self._count_texts(known[types], [list(map(_content, column)) for column in zip(*rows, strict=True)])

    def _count_texts(self, shape: Shape, texts: list[list[str]]) -> None:
        """Count rows of one shape by the texts of each message in turn."""
        statistics, number = self.statistics, len(texts[0])
        statistics.num_rows += number
        statistics.turns[min(shape.roles.count("user"), MAX_TURNS)] += number
        statistics.num_system_rows += number * (shape.roles[0] == "system")
        statistics.row_lengths.add_all(reduce(partial(map, add), (map(len, column) for column in texts)))
        statistics.add_answers(texts[-1])

    def _notice(self, messages: list[Messages], shapes: list[Types], known: dict[Types, Shape],
                lines: list[int]) -> None:
        if any(known[types].odd for types in set(shapes)):
            for types, line in zip(shapes, lines, strict=True):
                self.findings.note(known[types].odd, line)
        compared = messages[:self.findings.num_to_compare]
        asked = ("\0".join([known[types].asked, *map(_content, row[:-1])])
                 for row, types in zip(compared, shapes, strict=False))
        self.findings.compare_all(map(str.encode, asked), (row[-1].content.encode() for row in compared),
                                  lines[:len(compared)])


def _by_shape(messages: list[Messages], shapes: list[Types]) -> Iterator[tuple[Types, list[Messages]]]:
    """The rows of each shape together, in the order in which the shapes come."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        yield shapes[0], messages
        return
    found = dict[Types, list[Messages]]()
    for row, types in zip(messages, shapes, strict=True):
        found.setdefault(types, []).append(row)
    yield from found.items()


@lru_cache(maxsize=64)
def _decoder_of(types: Types) -> Decoder:
    """What decodes rows of these roles and no others."""
    fields = [("messages", GenericAlias(tuple, types))]
    row = msgspec.defstruct("RowOfRoles", fields, forbid_unknown_fields=True, gc=False)
    return cast(Decoder, msgspec.json.Decoder(row))


def _decodable(batch: Batch) -> tuple[list[PlainRow], Sequence[int]]:
    """The rows among the lines that are shaped like plain ones, and where they stand."""
    rows = _all_decoded(batch, _any_roles)
    if rows is not None:
        return rows, range(len(rows))
    rows, places = list[PlainRow](), list[int]()
    for place, line in enumerate(batch.lines):
        try:
            rows.append(_any_roles.decode(line))
        except msgspec.DecodeError:
            continue
        places.append(place)
    return rows, places


def _all_decoded(batch: Batch, decoder: Decoder) -> list[PlainRow] | None:
    """A row for each line; None where some line is none.

    The parser takes values one after the other wherever lines end. With a line for each value, and each value but the
    first opening one, each has a line to itself: what opens a row stands nowhere else behind the end of a line.
    """
    try:
        rows = decoder.decode_lines(batch.written)
        if (len(rows) == batch.num_lines and batch.written.startswith(OPENING)
                and batch.written.count(b"\n" + OPENING) == len(rows) - 1):
            return rows
        return list(map(decoder.decode, batch.lines))
    except msgspec.DecodeError:
        return None


def _holds_nul(texts: list[str]) -> bool:
    return "\0" in "".join(texts)


def _are_good(written: bytes, messages: list[Messages], shapes: list[Types], known: Mapping[Types, Shape]) -> bool:
    """Whether every one of these rows is good, beyond doubt."""
    return (all(known[types].is_good for types in set(shapes)) and all(map(_content, map(_last, messages)))
            and (written.rfind(b"\\u00") < 0 or not _HIDING.search(written)) and _writes_keys_once(written, messages))


def _writes_keys_once(written: bytes, messages: list[Messages]) -> bool:
    """Whether no key stands twice in an object; each stands there once, and no escape hides a letter of it."""
    number = sum(map(len, messages))
    for key, keys in (("role", number), ("content", number), ("messages", len(messages))):
        found = written.count(f'"{key}"'.encode())
        if found != keys and found != keys + _quoted(key, chain.from_iterable(messages)):
            return False
    return True


def _quoted(key: str, messages: Iterable[Message]) -> int:
    """How many texts are, or end with, what is written like this key."""
    return sum(text == key or text.endswith(f'"{key}') for text in map(_content, messages))


def shape_of(types: Types) -> Shape:
    """What these roles say, for messages of text alone."""
    roles = tuple(ROLES[kind] for kind in types)
    is_good = roles[-1:] == ("assistant",) and "system" not in roles[1:]
    return Shape(is_good, roles, plain_prompt(roles), tuple(odd_turns(roles)) if is_good else ())
