"""What a dry run notices in a sample of a dataset's rows: exact duplicates and the shapes of conversations. Pure."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

LISTED = 5
SHAPES = 10
SHOWN_ROLES = 16


class _Message(msgspec.Struct):
    role: str = ""


class _Row(msgspec.Struct):
    messages: list[_Message] = []
    prompt: list[_Message] = []
    tools: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def shape(self) -> str:
        """The roles of a conversation in order; of a pair those of its prompt."""
        shown = " ".join([message.role for message in (self.messages or self.prompt)[:SHOWN_ROLES]])
        return f"{shown} (pair)" if self.prompt else shown or "other"


_decoder = msgspec.json.Decoder(_Row)


@dataclass
class _Seen:
    """What was read so far."""

    read: int = 0
    duplicates: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    tools: int = 0
    first_positions: dict[bytes, int] = field(default_factory=dict)
    repeated: list[dict[str, int]] = field(default_factory=list)

    def add(self, position: int, row: bytes) -> None:
        self.read += 1
        digest = hashlib.blake2b(row, digest_size=16).digest()
        first = self.first_positions.setdefault(digest, position)
        if first != position:
            self.duplicates += 1
            if len(self.repeated) < LISTED:
                self.repeated.append({"position": position, "sameAs": first})
        self._add_shape(row)

    def _add_shape(self, row: bytes) -> None:
        try:
            found = _decoder.decode(row)
        except msgspec.MsgspecError:
            self.shapes["other"] += 1
            return
        self.shapes[found.shape] += 1
        self.tools += bytes(found.tools) not in {b"null", b"[]"}


def diagnose(rows: Iterable[tuple[int, bytes]], *, num_examples: int) -> dict[str, Any]:
    """Findings over the rows given, each with its position in the dataset; `coverage` says how many of all they are."""
    seen = _Seen()
    for position, row in rows:
        seen.add(position, row)
    return {"coverage": coverage(seen.read, num_examples),
            "duplicates": {"rows": seen.duplicates, "first": seen.repeated},
            "shapes": [{"roles": roles, "rows": count} for roles, count in seen.shapes.most_common(SHAPES)],
            "toolRows": seen.tools}


def coverage(read: int, num_examples: int) -> dict[str, Any]:
    """How many of all rows findings are of, and the sentence that says so where it is not all of them."""
    complete = read >= num_examples
    note = "" if complete else f"Read {read:,} of {num_examples:,} examples for these findings; the rest may differ."
    return {"read": read, "total": num_examples, "complete": complete, "note": note}
