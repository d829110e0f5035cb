"""Prepared token rows: Parquet files whose rows are tokens and their mask already, rendered by whoever made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from pyarrow import parquet

from optimize_child.failures import JobFailure
from optimize_child.reading.refusals import RefusedRows, refuse_rows
from optimize_child.reading.row_fit import LongRows, no_row_left
from optimize_child.reading.token_rows import RowStore, TokenRows

FORMAT = "prepared-tokens-v1"
IDS, MASK = "input_ids", "loss_mask"
BATCH_ROWS = 256
HIGHEST_TOKEN = 1 << 31
REGISTER_AGAIN = "Render the rows again, describe them, and register the new version."


class PreparedRow(NamedTuple):
    """A row: its place for messages, its tokens, its mask."""

    place: str
    ids: np.ndarray
    mask: np.ndarray


def check_prepared(dataset: dict[str, Any], base_model: dict[str, Any], template_sha256: str) -> None:
    """Raise JobFailure where the rows were made for another tokenizer or under another chat template than the run's."""
    made = dataset.get("prepared") or {}
    tokenizer, digest = made.get("tokenizer") or {}, made.get("chatTemplateSha256")
    if tokenizer.get("repository") not in (None, base_model["repository"]):
        raise JobFailure(
            "data_error",
            f"The rows of {dataset['name']} were prepared with the tokenizer of {tokenizer['repository']}, and the run "
            f"trains {base_model['repository']}.",
            hint=REGISTER_AGAIN,
        )
    if digest not in (None, template_sha256):
        raise JobFailure(
            "data_error",
            f"The rows of {dataset['name']} were rendered under the chat template {digest}, and the run renders under "
            f"{template_sha256}.",
            hint=REGISTER_AGAIN,
        )


def read_prepared(
    rows: Iterable[PreparedRow],
    long_rows: LongRows,
    tick: Callable[[int], None] = lambda _count: None,
    *,
    vocabulary: int,
    dataset: str = "training",
    folder: Path | None = None,
) -> TokenRows:
    """Rows as they were prepared. Raises JobFailure naming those that cannot be trained on."""
    store, bad, number = RowStore(folder), RefusedRows(), 0
    for number, (place, ids, mask) in enumerate(rows, start=1):
        reason = _why_not(ids, mask, vocabulary)
        if reason:
            bad.add(place, reason)
        elif len(ids) > long_rows.limit:
            long_rows.add(len(ids), place)
        else:
            store.add(ids, mask)
        if number % BATCH_ROWS == 0:
            tick(number)
    tick(number)
    refuse_rows(bad, "cannot be trained on", REGISTER_AGAIN)
    long_rows.refuse()
    if not len(store):
        raise no_row_left(dataset, long_rows)
    return store.finish(too_long=len(long_rows))


def placed_rows(dataset: dict[str, Any]) -> Iterator[PreparedRow]:
    """The rows of a plan's dataset in the order of its files, each under its number there, from 1, and the name that
    the registry has for the file: on the disk a digest names it, which nobody knows."""
    files = [Path(file) for file in dataset["files"]]
    names = (dataset.get("prepared") or {}).get("files") or [file.name for file in files]
    for file, name in zip(files, names, strict=True):
        for number, (ids, mask) in enumerate(_rows(file), start=1):
            yield PreparedRow(f"row {number} of {name}", ids, mask)


def _rows(file: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of a file in order, read a few at a time."""
    try:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(BATCH_ROWS, columns=[IDS, MASK], use_threads=False):
                yield from zip(_lists(batch.column(IDS)), _lists(batch.column(MASK)), strict=True)
    except pyarrow.ArrowException as error:
        raise JobFailure(
            "data_error", f"A file of prepared rows cannot be read: {error}", hint=REGISTER_AGAIN
        ) from error


def _lists(column: Any) -> Iterator[np.ndarray]:
    for value in column:
        yield np.asarray(value.values if value.is_valid else [], dtype=np.int64)


def _why_not(ids: np.ndarray, mask: np.ndarray, vocabulary: int) -> str:
    """Why a row cannot be trained on, in the registry's words (tests/token_row_cases.json); empty for a good one."""
    if not len(ids):
        return "The row has no token."
    if len(ids) != len(mask):
        return f"The row has {len(ids)} tokens and {len(mask)} marks in its mask."
    return " ".join([*_odd_tokens(ids, vocabulary), *_odd_marks(mask)])


def _odd_tokens(ids: np.ndarray, vocabulary: int) -> Iterator[str]:
    odd = ids[(ids < 0) | (ids >= HIGHEST_TOKEN)]
    unknown = ids[ids >= vocabulary]
    if len(odd):
        yield f"The row holds the token {odd[0]}; a token is a number from 0 on."
    elif len(unknown):
        yield f"The row holds the token {unknown[0]}; the model's vocabulary has {vocabulary}."


def _odd_marks(mask: np.ndarray) -> Iterator[str]:
    odd = mask[(mask < 0) | (mask > 1)]
    if len(odd):
        yield f"The mask holds {odd[0]}; a mark is 0 or 1."
    elif mask[0]:
        yield "The mask marks the first token, which no token before it predicts."
    elif not mask.any():
        yield "The mask marks no token, so that the row trains nothing."
