"""What a dry run notices in a sample of a dataset's rows: exact duplicates and the shapes of conversations. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

LISTED = 5
SHAPES = 10
SHOWN_ROLES = 16


class _Message(msgspec.Struct, gc=False):
    role: str = ""


class _Row(msgspec.Struct, gc=False):
    messages: list[_Message] = []
    prompt: list[_Message] = []
    tools: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_Row)
Shape = tuple[bool, tuple[str, ...]]  # whether it is a pair, and the roles of the conversation or of the prompt
OTHER: Shape = (False, ())
NO_TOOLS = (msgspec.Raw(b"null"), msgspec.Raw(b"[]"))


def diagnose(rows: Iterable[tuple[int, bytes]], *, num_examples: int) -> dict[str, Any]:
    """Findings over the rows given, each with its position in the dataset; `coverage` says how many of all they are."""
    firsts: dict[int, int] = {}  # by the row's hash, of this process only
    repeated: list[tuple[int, int]] = []
    shapes: Counter[Shape] = Counter()
    tool_rows = 0
    for position, row in rows:
        first = firsts.setdefault(hash(row), position)
        if first != position:
            repeated.append((position, first))
        shape, has_tools = _look(row)
        shapes[shape] += 1
        tool_rows += has_tools
    return {"coverage": coverage(shapes.total(), num_examples),
            "duplicates": {"rows": len(repeated), "first": [{"position": position, "sameAs": first}
                                                            for position, first in repeated[:LISTED]]},
            "shapes": [{"roles": _words(shape), "rows": count} for shape, count in shapes.most_common(SHAPES)],
            "toolRows": tool_rows}


def _look(row: bytes) -> tuple[Shape, bool]:
    """A row's shape, and whether it offers tools."""
    try:
        found = _decoder.decode(row)
    except msgspec.MsgspecError:
        return OTHER, False
    roles = tuple([message.role for message in (found.messages or found.prompt)[:SHOWN_ROLES]])
    return (bool(found.prompt), roles), found.tools not in NO_TOOLS


def _words(shape: Shape) -> str:
    is_pair, roles = shape
    return f"{' '.join(roles)} (pair)" if is_pair else " ".join(roles) or "other"


def coverage(read: int, num_examples: int) -> dict[str, Any]:
    """How many of all rows findings are of, and the sentence that says so where it is not all of them."""
    complete = read >= num_examples
    note = "" if complete else f"Read {read:,} of {num_examples:,} examples for these findings; the rest may differ."
    return {"read": read, "total": num_examples, "complete": complete, "note": note}
