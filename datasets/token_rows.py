"""Checks Parquet files of prepared token rows, row by row, in a process of its own with bounded memory.

Parquet is read by a large native library, and a small file can unpack to any size: the process that reads it may die,
the one that asks may not. Run as `python -m datasets.token_rows FILE…`, it prints one JSON document.
"""

import heapq
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

IDS, MASK = "input_ids", "loss_mask"
MAX_PROBLEMS = 20
NAMED_ROWS = 20
MAX_ROW_TOKENS = 1 << 24
BATCH_TOKENS = 1 << 20
MAX_BATCH_ROWS = 4096
MEMORY_BYTES = 3 << 30
TIMEOUT_SECONDS = 600
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class BadTokenRow:
    """One thing wrong with a file of token rows; `row` counts from 1, 0 is the file as a whole; `file` is its place,
    -1 where nobody can tell which it was."""

    file: int
    row: int
    code: str
    message: str


@dataclass(frozen=True)
class TokenFile:
    """What one good file holds.

    `lengths` is how many rows have so many tokens, as `[tokens, rows]`; `longest_rows` are up to NAMED_ROWS rows,
    counted from 1, as `[tokens, row]`, the longest first and of equal ones the earlier.
    """

    rows: int
    tokens: int
    trained_tokens: int
    lengths: list[list[int]]
    longest_rows: list[list[int]]


@dataclass(frozen=True)
class TokenFiles:
    """What was found in several files, in order; `num_bad` counts the bad rows, of which the first are in `bad`."""

    files: list[TokenFile]
    bad: list[BadTokenRow]
    num_bad: int


def measure_files(paths: Sequence[Path]) -> TokenFiles:
    """Check and count the rows of files that lie on this disk, in a process of its own."""
    command = [sys.executable, "-m", "datasets.token_rows", *(str(path.absolute()) for path in paths)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", ""), "ARROW_DEFAULT_MEMORY_POOL": "system"}
    try:
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=TIMEOUT_SECONDS,
                              check=False)
    except subprocess.TimeoutExpired:
        return _unread(f"could not be read within {TIMEOUT_SECONDS} s")
    if done.returncode:
        return _unread(f"could not be read in {MEMORY_BYTES >> 30} GiB of memory, or broke its reader")
    found = json.loads(done.stdout)
    return TokenFiles([TokenFile(**item) for item in found["files"]], [BadTokenRow(**item) for item in found["bad"]],
                      found["num_bad"])


def _unread(reason: str) -> TokenFiles:
    return TokenFiles([], [BadTokenRow(-1, 0, "parquet_unreadable", f"A file {reason}.")], 1)


# In the process that reads -------------------------------------------------------------------------------------------


class Reader:
    """Reads files one after another and gathers what is wrong with their rows."""

    def __init__(self) -> None:
        self.bad: list[BadTokenRow] = []
        self.num_bad = 0

    def refuse(self, file: int, row: int, code: str, message: str) -> None:
        self.num_bad += 1
        if len(self.bad) < MAX_PROBLEMS:
            self.bad.append(BadTokenRow(file, row, code, message))

    def read(self, number: int, path: str) -> TokenFile | None:
        """One file's counts; None where it is no such file at all."""
        import pyarrow  # only here: the process that asks stays small
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(path) as opened:
                return self._rows(number, opened) if self._has_columns(number, opened.schema_arrow) else None
        except MemoryError:
            self.refuse(number, 0, "parquet_unreadable",
                        f"The file does not unpack within {MEMORY_BYTES >> 30} GiB of memory.")
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            self.refuse(number, 0, "parquet_unreadable", f"The file is no Parquet that can be read: {_first(error)}.")
        return None

    def _has_columns(self, number: int, schema: Any) -> bool:
        from pyarrow import types

        for name in (IDS, MASK):
            if schema.names.count(name) != 1:
                self.refuse(number, 0, "column_missing", f"The file has no column {name}; it has "
                            f"{', '.join(schema.names[:10])}.")
                return False
            kind = schema.field(name).type
            inner = kind.value_type if _is_list(kind) else None
            if inner is None or not (types.is_integer(inner) or (name == MASK and types.is_boolean(inner))):
                self.refuse(number, 0, "column_type", f"The column {name} is {kind}; it holds lists of integers.")
                return False
        return True

    def _rows(self, number: int, opened: Any) -> TokenFile:
        rows, trained, found = 0, 0, Lengths()
        for ids, mask in self._batches(opened):
            counts = self._batch(number, rows, ids, mask)
            if counts is not None:
                lengths, marked = counts
                trained += marked
                found.add(lengths, rows)
            rows += len(ids)
        if not rows:
            self.refuse(number, 0, "no_rows", "The file holds no row.")
        return TokenFile(rows, found.tokens, trained, found.counted(), found.longest_rows())

    def _batches(self, opened: Any) -> Iterator[tuple[Any, Any]]:
        meta = opened.metadata
        values = sum(meta.row_group(group).column(column).num_values for group in range(meta.num_row_groups)
                     for column in range(meta.num_columns))
        mean = max(1, values // max(1, meta.num_rows))
        size = max(1, min(MAX_BATCH_ROWS, BATCH_TOKENS // mean))
        for batch in opened.iter_batches(size, columns=[IDS, MASK], use_threads=False):
            if batch.num_rows:
                yield batch.column(IDS), batch.column(MASK)

    def _batch(self, number: int, before: int, ids: Any, mask: Any) -> tuple[list[int], int] | None:
        """The lengths of a batch's rows and how many tokens are marked; None where a row is bad."""
        bad = self.num_bad
        lengths = self._lengths(number, before, ids, mask)
        if lengths is not None and not _is_plain(ids, mask, lengths):
            for row, (values, marks) in enumerate(zip(ids.to_pylist(), mask.to_pylist(), strict=True), before + 1):
                for code, message in _wrong(values, [int(mark) if mark is not None else mark for mark in marks]):
                    self.refuse(number, row, code, message)
        if lengths is None or self.num_bad > bad:
            return None
        return lengths, _marks_in(mask)

    def _lengths(self, number: int, before: int, ids: Any, mask: Any) -> list[int] | None:
        import pyarrow.compute as compute

        lengths, marks = (compute.list_value_length(column).to_pylist() for column in (ids, mask))
        bad = self.num_bad
        for row, (length, marked) in enumerate(zip(lengths, marks, strict=True), before + 1):
            if not length:
                self.refuse(number, row, "no_tokens", "The row has no token.")
            elif length != marked:
                self.refuse(number, row, "mask_length", f"The row has {length} tokens and {marked or 0} marks in its "
                            "mask.")
            elif length > MAX_ROW_TOKENS:
                self.refuse(number, row, "row_too_long", f"The row has {length:,} tokens; at most {MAX_ROW_TOKENS:,} "
                            "are read.")
        return lengths if self.num_bad == bad else None


class Lengths:
    """How many tokens the rows of a file have, and which are the longest."""

    def __init__(self) -> None:
        self.tokens = 0
        self._counts: Counter[int] = Counter()
        self._longest: list[tuple[int, int]] = []

    def add(self, lengths: list[int], before: int) -> None:
        """The rows that follow on the first `before`."""
        self.tokens += sum(lengths)
        self._counts.update(lengths)
        least = self._longest[0][0] if len(self._longest) == NAMED_ROWS else 0
        if max(lengths) > least:
            later = ((length, -row) for row, length in enumerate(lengths, before + 1) if length > least)
            self._longest = sorted(heapq.nlargest(NAMED_ROWS, (*self._longest, *later)))

    def counted(self) -> list[list[int]]:
        """`[tokens, rows]` by tokens."""
        return [[tokens, rows] for tokens, rows in sorted(self._counts.items())]

    def longest_rows(self) -> list[list[int]]:
        """`[tokens, row]`, the longest first."""
        return [[tokens, -row] for tokens, row in reversed(self._longest)]


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_plain(ids: Any, mask: Any, lengths: list[int]) -> bool:
    """Whether every row of a batch is good, told from the columns as a whole."""
    import pyarrow
    import pyarrow.compute as compute

    tokens, marks = ids.flatten(), mask.flatten().cast(pyarrow.int64())
    if tokens.null_count or marks.null_count:
        return False
    low, high = compute.min_max(tokens).as_py().values()
    least, most = compute.min_max(marks).as_py().values()
    if low < 0 or high >= 1 << 31 or least < 0 or most > 1:
        return False
    if compute.max(compute.list_element(mask, 0).cast(pyarrow.int64())).as_py():
        return False
    ends = compute.cumulative_sum(pyarrow.array(lengths, pyarrow.int64()))
    marked = compute.take(compute.cumulative_sum(marks), compute.subtract(ends, 1)).to_pylist()
    return all(later > earlier for earlier, later in zip([0, *marked], marked, strict=False))


def _marks_in(mask: Any) -> int:
    """How many marks of a column of lists are 1."""
    import pyarrow
    import pyarrow.compute as compute

    return int(compute.sum(mask.flatten().cast(pyarrow.int64())).as_py() or 0)


def _wrong(values: list[Any], marks: list[Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with one row of tokens whose two lists are of one length."""
    odd = next((value for value in values if value is None or not 0 <= value < 1 << 31), values)
    if odd is not values:
        yield "token_invalid", f"The row holds the token {odd}; a token is a number from 0 on."
    odd = next((mark for mark in marks if mark not in (0, 1)), marks)
    if odd is not marks:
        yield "mark_invalid", f"The mask holds {odd}; a mark is 0 or 1."
    elif marks[0]:
        yield "first_token_marked", "The mask marks the first token, which no token before it predicts."
    elif not any(marks):
        yield "nothing_marked", "The mask marks no token, so that the row trains nothing."


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def main(paths: Sequence[str]) -> None:
    """Read the files and print what was found."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(most, MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    reader = Reader()
    files = [reader.read(number, path) for number, path in enumerate(paths)]
    print(json.dumps({"files": [asdict(file) for file in files if file is not None],
                      "bad": [asdict(problem) for problem in reader.bad], "num_bad": reader.num_bad}))


if __name__ == "__main__":
    main(sys.argv[1:])
