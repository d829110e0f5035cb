"""Reads prepared token rows from a Parquet file, in a process of its own that may die without harm.

Run as `python -m datasets.parquet_rows FILE START`, it writes each row from START on as a line of JSON, `{"input_ids",
"loss_mask"}`, for as long as somebody reads.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from datasets.token_rows import BATCH_TOKENS, IDS, MASK, MAX_BATCH_ROWS, MEMORY_BYTES, ROOT

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "ARROW_DEFAULT_MEMORY_POOL": "system"}


def read_tokens(file: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The rows from `start` on: each one's number and its JSON. Raises FileNotFoundError."""
    if not file.exists():
        raise FileNotFoundError(file)
    command = [sys.executable, "-m", "datasets.parquet_rows", str(file), str(start)]
    reader = subprocess.Popen(command, env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert reader.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        yield from ((number, line.rstrip(b"\n")) for number, line in zip(count(start), reader.stdout, strict=False))
    finally:
        reader.kill()
        reader.stdout.close()
        reader.wait()


# In the process that reads -------------------------------------------------------------------------------------------


def write_rows(file: str, start: int) -> None:
    """Write the rows from `start` on; groups of rows that end before it are not read."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file, buffer_size=1 << 20) as opened:
        groups, number = _groups_from(opened, start)
        mean = max(1, sum(_values(opened, group) for group in groups) // max(1, opened.metadata.num_rows))
        size = max(1, min(MAX_BATCH_ROWS, BATCH_TOKENS // mean))
        for batch in opened.iter_batches(size, row_groups=groups, columns=[IDS, MASK], use_threads=False):
            for row in batch.slice(min(max(0, start - number), batch.num_rows)).to_pylist():
                print(json.dumps({IDS: row[IDS], MASK: [int(mark) for mark in row[MASK]]}))
            number += batch.num_rows


def _values(opened: Any, group: int) -> int:
    meta = opened.metadata.row_group(group)
    return sum(meta.column(column).num_values for column in range(meta.num_columns))


def _groups_from(opened: Any, start: int) -> tuple[list[int], int]:
    """The groups that hold rows from `start` on, and the number of the first row of the first of them."""
    first = 0
    for group in range(opened.num_row_groups):
        rows = opened.metadata.row_group(group).num_rows
        if first + rows > start:
            return list(range(group, opened.num_row_groups)), first
        first += rows
    return [], first


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    write_rows(sys.argv[1], int(sys.argv[2]))
