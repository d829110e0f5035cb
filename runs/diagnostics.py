"""What a dry run notices without reading all of a dataset: exact duplicates and the shapes of conversations."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

MAX_SHARDS = 16
LISTED = 5
BOM = b"\xef\xbb\xbf"


class _Message(msgspec.Struct):
    role: str = ""


class _Row(msgspec.Struct):
    messages: list[_Message] = []
    tools: msgspec.Raw = msgspec.Raw(b"null")


_decoder = msgspec.json.Decoder(_Row)


@dataclass
class _Seen:
    """What was read so far."""

    read: int = 0
    num_bytes: int = 0
    duplicates: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    tools: int = 0
    first_lines: dict[bytes, int] = field(default_factory=dict)
    repeated: list[dict[str, int]] = field(default_factory=list)

    def add(self, number: int, line: bytes) -> None:
        self.read += 1
        self.num_bytes += len(line)
        digest = hashlib.blake2b(line, digest_size=16).digest()
        first = self.first_lines.setdefault(digest, number)
        if first != number:
            self.duplicates += 1
            if len(self.repeated) < LISTED:
                self.repeated.append({"row": number, "sameAs": first})
        self._add_shape(line)

    def _add_shape(self, line: bytes) -> None:
        try:
            row = _decoder.decode(line)
        except msgspec.MsgspecError:
            self.shapes["other"] += 1
            return
        self.shapes[" ".join(message.role for message in row.messages[:16]) or "other"] += 1
        self.tools += bytes(row.tools) not in {b"null", b"[]"}


def diagnose(files: Sequence[Path], *, num_examples: int, max_examples: int, max_bytes: int) -> dict[str, Any]:
    """Findings over the whole dataset where it is within both limits, else over its leading rows, or those of up to 16
    evenly spaced shards; `coverage` says how much was read."""
    seen = _Seen()
    spaced = [index * len(files) // MAX_SHARDS for index in range(MAX_SHARDS)]
    chosen = files if len(files) <= MAX_SHARDS else [files[index] for index in spaced]
    whole = len(chosen) == len(files)
    if whole and _fits(files, num_examples, max_examples, max_bytes):
        shares = [(max_examples, max_bytes)] * len(chosen)
    else:
        shares = [(max(1, max_examples // len(chosen)), max_bytes // len(chosen))] * len(chosen)
    for file, (rows, size) in zip(chosen, shares, strict=True):
        _read(file, seen, rows, size)
    return {"coverage": _coverage(seen, num_examples), "duplicates": {"rows": seen.duplicates, "first": seen.repeated},
            "shapes": [{"roles": roles, "rows": rows} for roles, rows in seen.shapes.most_common(10)],
            "toolRows": seen.tools}


def _fits(files: Iterable[Path], num_examples: int, max_examples: int, max_bytes: int) -> bool:
    return num_examples <= max_examples and sum(file.stat().st_size for file in files) <= max_bytes


def _read(file: Path, seen: _Seen, max_rows: int, max_bytes: int) -> None:
    rows, size = seen.read, seen.num_bytes
    for line in _lines(file):
        if seen.read - rows >= max_rows or seen.num_bytes - size + len(line) > max_bytes:
            return
        seen.add(seen.read + 1, line)


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        for number, line in enumerate(opened):
            text = line.removeprefix(BOM) if number == 0 else line
            text = text.rstrip(b"\r\n")
            if text.strip():
                yield text


def _coverage(seen: _Seen, num_examples: int) -> dict[str, Any]:
    complete = seen.read >= num_examples
    note = "" if complete else (f"Read {seen.read:,} of {num_examples:,} examples for these findings; the rest may "
                                "differ.")
    return {"read": seen.read, "total": num_examples, "complete": complete, "note": note}
