"""Cuts a held-out part off a file of chat rows or pairs: every answer in proportion, and no prompt on both sides."""

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import orjson

from datasets.errors import SplitImpossible
from datasets.ingest import examine_file
from datasets.lines import read_lines
from datasets.pairs import FORMAT as PREFERENCE
from datasets.pairs import as_rows, read_pair
from datasets.prompts import prompt_key
from datasets.rows import FORMAT as CHAT
from datasets.rows import Row, answer_text, read_row
from datasets.statistics import LABEL_CHARACTERS, json_object

CHUNK = 1 << 20


@dataclass
class Group:
    """Rows that ask the same thing, and so stay together; `label` is what the first of them answers."""

    label: str
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """One side of a split: where it was written, how many rows, how many of each answer."""

    path: Path
    num_rows: int
    labels: dict[str, int]


def split_file(source: Path, train: Path, held_out: Path, *, share: float, seed: int = 0) -> tuple[Part, Part]:
    """Write the rows of `source` to two files, `share` of them (or that many, from 1 on) to `held_out`, in their order.

    Rows with the same prompt, but for case and spacing, land on the same side. The same file, share and seed give the
    same parts. Raises DatasetInvalid for a bad file, SplitImpossible where a side would be empty.
    """
    labels: list[str] = []
    groups = _groups(source, labels)
    wanted = share * len(labels) if share < 1 else share
    chosen = choose(groups, wanted / max(1, len(labels)), seed)
    if not 0 < len(chosen) < len(labels):
        raise SplitImpossible(f"Of {len(labels)} rows with {len(groups)} different prompts, {len(chosen)} would be "
                              "held out.", hint="Choose another --held-out, or add rows that ask something else.")
    _write(source, train, held_out, chosen)
    sides: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for position, label in enumerate(labels):
        sides[position in chosen][label] += 1
    return (Part(train, len(labels) - len(chosen), dict(sides[0])), Part(held_out, len(chosen), dict(sides[1])))


def choose(groups: list[Group], share: float, seed: int) -> set[int]:
    """The positions to hold out: walking the groups answer by answer, one whenever the share has added up to it."""
    chosen: set[int] = set()
    owed = 0.0
    for group in sorted(groups, key=lambda group: (group.label, _draw(seed, group))):
        owed += share * len(group.rows)
        if owed >= len(group.rows) / 2:
            owed -= len(group.rows)
            chosen.update(group.rows)
    return chosen


def _draw(seed: int, group: Group) -> bytes:
    return hashlib.sha256(f"{seed}:{group.rows[0]}".encode()).digest()


def _groups(source: Path, labels: list[str]) -> list[Group]:
    read = READERS[examine_file(source).stretch.format]
    groups: dict[bytes, Group] = {}
    for position, line in enumerate(_rows(source)):
        row = read(line)
        label = label_of(row)
        labels.append(label)
        groups.setdefault(prompt_key(row), Group(label)).rows.append(position)
    return list(groups.values())


def _read_chosen(line: bytes) -> Row:
    """A preference pair as the chat row of its chosen answer."""
    return next(as_rows(read_pair(line)))


READERS: dict[str, Callable[[bytes], Row]] = {CHAT: read_row, PREFERENCE: _read_chosen}


def label_of(row: Row) -> str:
    """The answer as a label: the object it is, whatever its key order; a short text; else nothing."""
    answer = answer_text(row).strip()
    fields = json_object(answer)
    if fields is not None:
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()
    return answer if len(answer) <= LABEL_CHARACTERS else ""


def _rows(source: Path) -> Iterator[bytes]:
    return (line.data for line in read_lines(_chunks(source)) if not line.is_blank)


def _chunks(source: Path) -> Iterator[bytes]:
    with source.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _write(source: Path, train: Path, held_out: Path, chosen: set[int]) -> None:
    with _placed(train) as kept, _placed(held_out) as cut:
        for position, line in enumerate(_rows(source)):
            (cut if position in chosen else kept).write(line + b"\n")


@contextmanager
def _placed(place: Path) -> Iterator[IO[bytes]]:
    """A file written beside its place, and moved there once all went well."""
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".split-", delete=False) as file:
        written = Path(file.name)
        try:
            yield file
            file.flush()
            written.chmod(0o644)
            written.replace(place)
        finally:
            written.unlink(missing_ok=True)
