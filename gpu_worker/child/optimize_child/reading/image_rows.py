"""A dataset of chat rows with images as the trainer reads it: tokens and masks now, pixels when a pass needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimize_child.failures import JobFailure
from optimize_child.reading.image_messages import image_paths
from optimize_child.reading.lines import Line, LineIndex, read_lines
from optimize_child.reading.refusals import RefusedRows, refuse_rows, refuse_untrained_rows
from optimize_child.reading.row_fit import LongRows, no_row_left
from optimize_child.reading.rows import LineRefused, check_row, read_row, told, tools_of
from optimize_child.reading.token_rows import IGNORED, RowStore, TokenRows
from optimize_child.reading.tokens import CORRECT, Reading
from optimize_child.rendering.masks import MaskRefused
from optimize_child.rendering.template import TemplateRefused
from optimize_child.training.compute_path import ComputePath

if TYPE_CHECKING:
    from optimize_child.reading.images import ImageReader

IMAGES_PATH = ComputePath("plain", False, "the rows hold images, which the model reads beside the text")


@dataclass(frozen=True)
class ImageRows(TokenRows):
    """Token rows that know where their lines stand."""

    lines: LineIndex | None = None
    reader: ImageReader | None = None

    def source(self, index: int) -> dict[str, Any]:
        """A row as its line writes it, read from the disk."""
        return read_row(self.lines.data(index))

    def layout(self, micro: int) -> WithImages:
        """How these rows are laid out for the model."""
        return WithImages(self, micro)


@dataclass(frozen=True)
class WithImages:
    """Padded rows with their pixels, made when a pass is asked for: all pixels of an epoch would not fit in memory."""

    rows: ImageRows
    micro: int

    def passes(self, sequences: Sequence[Sequence[int]]) -> Passes:
        indices = [row for (row,) in sequences]
        parts = [indices[start : start + self.micro] for start in range(0, len(indices), self.micro)]
        # A pass holds images in all of its rows or in none: processors take no empty place among them.
        return Passes(self.rows, [list(same) for part in parts for _, same in groupby(part, self._has_images)])

    def _has_images(self, index: int) -> bool:
        return bool(image_paths(self.rows.source(index)))


class Passes(Sequence[dict[str, Any]]):
    """The passes of some sequences; each is made anew whenever it is read."""

    def __init__(self, rows: ImageRows, parts: list[list[int]]) -> None:
        self._rows = rows
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Passes(self._rows, self._parts[at])
        part = self._parts[at]
        inputs = self._rows.reader.batch([self._rows.source(index) for index in part])
        return {**inputs, "labels": self._labels(part, inputs["input_ids"])}

    def _labels(self, part: list[int], ids: torch.Tensor) -> torch.Tensor:
        labels = np.full(tuple(ids.shape), IGNORED, dtype=np.int64)
        for at, index in enumerate(part):
            tokens, row_labels = self._rows.row(index)
            if not np.array_equal(ids[at, : len(tokens)].numpy(), tokens):
                raise JobFailure(
                    "unexpected",
                    "The processor reads a row among others otherwise than alone.",
                    hint="Set training.microBatchPerGpu to 1.",
                )
            labels[at, : len(tokens)] = row_labels
        return torch.from_numpy(labels)


def read_image_rows(
    files: Sequence[Path],
    reader: ImageReader,
    reading: Reading,
    tick: Callable[[int], None],
    folder: Path | None = None,
) -> ImageRows:
    """Every row of a dataset as tokens and mask. Raises JobFailure naming the rows that cannot be trained on."""
    collected = _Collected(reader, reading, RowStore(folder))
    count = 0
    for count, line in enumerate(read_lines(files), start=1):
        collected.take(line)
        tick(count)
    return collected.finish()


def read_image_line(line: Line, reader: ImageReader, reading: Reading) -> TokenRows:
    """One row as tokens and mask, read to be shown. Raises JobFailure as `read_image_rows` does."""
    collected = _Collected(reader, reading, RowStore())
    collected.take(line)
    return collected.finish()


class _Collected:
    """Collects rows and refusals; a dataset is refused once, with all that is wrong with it."""

    def __init__(self, reader: ImageReader, reading: Reading, store: RowStore) -> None:
        self.reader = reader
        self.reading = reading
        self.store = store
        self.long = LongRows(reading.max_length, reading.truncation)
        self.lines = LineIndex()
        self.bad = RefusedRows()
        self.empty = RefusedRows()

    def take(self, line: Line) -> None:
        try:
            (ids, (trained,)) = self.reader.read(self._good(line), [self.reading.policy])
        except (LineRefused, MaskRefused, TemplateRefused) as error:
            self.bad.add(line.place, str(error))
            return
        if len(ids) > self.reading.max_length:
            self.long.add(len(ids), line.place)
        elif self.store.add(ids, trained):
            self.lines.add(line)
        else:
            self.empty.add(line.place)

    def _good(self, line: Line) -> dict[str, Any]:
        row = read_row(line.data)
        problems = check_row(row)
        if problems:
            raise MaskRefused(told(problems))
        if tools_of(row):
            raise MaskRefused("the row offers tools, and a run over images renders none")
        return row

    def finish(self) -> ImageRows:
        refuse_rows(self.bad, "cannot be trained on", CORRECT)
        self.long.refuse()
        refuse_untrained_rows(self.empty)
        if not len(self.store):
            raise no_row_left(self.reading.dataset, self.long)
        rows = self.store.finish(too_long=len(self.long))
        return ImageRows(**vars(rows), lines=self.lines, reader=self.reader)


def require_plain_settings(config: dict[str, Any]) -> None:
    """Raise JobFailure for a configuration that only rows of text can follow."""
    data, column = config["data"], config["loss"].get("explicitLossMaskColumn")
    if data["truncation"] not in ("error", "drop"):
        raise _refused(f"data.truncation is {data['truncation']}", "Set data.truncation to error or drop.")
    if data["packing"]:
        raise _refused("data.packing is on", "Set data.packing to false.")
    if column is not None:
        raise _refused(f"loss.explicitLossMaskColumn is {column}", "Leave loss.explicitLossMaskColumn out.")


def _refused(setting: str, hint: str) -> JobFailure:
    return JobFailure("unsupported_setting", f"{setting}, and the rows hold images.", hint=hint)
