"""A dataset of chat rows as the trainer reads it: each row's tokens and mask, refused rows named by their lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from optimize_child.reading.lines import Line, read_lines
from optimize_child.reading.refusals import RefusedRows, refuse_rows, refuse_untrained_rows
from optimize_child.reading.row_fit import LongRows, no_row_left
from optimize_child.reading.rows import LineRefused, check_row, has_images, messages_of, read_row, told, tools_of
from optimize_child.reading.token_rows import RowStore, TokenRows
from optimize_child.reading.truncation import TRIMMING, NeverFits, cut_right, trim_to_fit
from optimize_child.rendering.explicit_masks import explicit_mask, require_length
from optimize_child.rendering.masks import Conversation, MaskRefused, Policy, Span, token_mask
from optimize_child.rendering.system_alone import SystemAlone
from optimize_child.rendering.template import ChatTemplate, TemplateRefused
from optimize_child.rendering.template_check import TemplateCheck

BATCH_ROWS = 256
CORRECT = "Correct or remove these rows and register the dataset again."


@dataclass(frozen=True)
class Reading:
    """How rows are read: the loss policy, the longest row, what happens to a longer one, the mask column."""

    policy: Policy
    max_length: int
    truncation: str
    mask_column: str | None = None
    dataset: str = "training"
    watch: SystemAlone | None = None
    """Set for a model whose template does not render a system message alone with tools."""


class Rendered(NamedTuple):
    """A row on its way to tokens: the rendered conversation and what of it is trained."""

    line: Line
    conversation: Conversation
    spans: list[Span]
    mask: list[int] | None


def read_tokens(
    files: Iterable[Path],
    template: ChatTemplate,
    reading: Reading,
    tick: Callable[[int], None],
    folder: Path | None = None,
    first: int | None = None,
) -> TokenRows:
    """Every row of a dataset, or so many `first` ones, as tokens and mask.

    Raises JobFailure naming the rows that cannot be trained on.
    """
    return tokens_of_lines(islice(read_lines(files), first), template, reading, tick, folder)


def tokens_of_lines(
    lines: Iterator[Line],
    template: ChatTemplate,
    reading: Reading,
    tick: Callable[[int], None] = lambda _count: None,
    folder: Path | None = None,
) -> TokenRows:
    """Some lines of a dataset as tokens and mask. Raises JobFailure as `read_tokens` does."""
    reader = _Reader(template, reading, RowStore(folder))
    for count, batch in _batches(reader.render_all(lines), BATCH_ROWS):
        reader.tokenize(batch)
        tick(count)
    return reader.finish()


def _batches(rows: Iterator[Rendered | None], size: int) -> Iterator[tuple[int, list[Rendered]]]:
    """Groups of rendered rows, each with the number of lines read so far; None is a row that was refused."""
    batch: list[Rendered] = []
    count = 0
    for count, row in enumerate(rows, start=1):
        if row is not None:
            batch.append(row)
        if len(batch) == size:
            yield count, batch
            batch = []
    yield count, batch


class _Reader:
    """Collects rows and refusals; a dataset is refused once, with all that is wrong with it."""

    def __init__(self, template: ChatTemplate, reading: Reading, store: RowStore) -> None:
        self.template = template
        self.check = TemplateCheck(template)
        self.reading = reading
        self.store = store
        self.bad = RefusedRows()
        self.long = LongRows(reading.max_length, reading.truncation)
        self.empty = RefusedRows()
        self.trimmed = self.turns_removed = self.masked = 0

    def render_all(self, lines: Iterator[Line]) -> Iterator[Rendered | None]:
        for line in lines:
            try:
                yield self._render(line)
            except (LineRefused, MaskRefused, TemplateRefused) as error:
                self.bad.add(line.place, str(error))
                yield None

    def _render(self, line: Line) -> Rendered:
        row = read_row(line.data)
        problems = check_row(row)
        if problems:
            raise MaskRefused(told(problems))
        if has_images(row):
            raise MaskRefused("the row has images, and this run trains on text")
        messages, tools = messages_of(row), tools_of(row)
        if self.reading.watch:
            self.reading.watch.see(self.reading.dataset, line.place, messages, tools)
        conversation = Conversation(self.check, messages, tools)
        mask = explicit_mask(row, self.reading.mask_column)
        spans = conversation.trained_spans(self.reading.policy) if mask is None else []
        return Rendered(line, conversation, spans, mask)

    def tokenize(self, batch: list[Rendered]) -> None:
        if not batch:
            return
        ids, offsets = self.template.tokenize([row.conversation.text for row in batch])
        for row, row_ids, row_offsets in zip(batch, ids, offsets, strict=True):
            try:
                self._fit(row, row_ids, row_offsets)
            except (MaskRefused, TemplateRefused) as error:
                self.bad.add(row.line.place, str(error))

    def _fit(self, row: Rendered, ids: list[int], offsets: list[tuple[int, int]]) -> None:
        if row.mask is not None:
            require_length(row.mask, self.reading.mask_column, len(ids))
        if len(ids) > self.reading.max_length:
            self._shorten(row, ids, offsets)
        else:
            self._keep(row, ids, _trained(row, offsets))

    def _shorten(self, row: Rendered, ids: list[int], offsets: list[tuple[int, int]]) -> None:
        if self.reading.truncation in TRIMMING:
            self._trim(row, len(ids))
        elif self.reading.truncation == "right":
            self._keep(row, *cut_right(ids, _trained(row, offsets), self.reading.max_length))
            self.trimmed += 1
        else:
            self.long.add(len(ids), row.line.place)

    def _trim(self, row: Rendered, tokens: int) -> None:
        if row.mask is not None:
            raise MaskRefused(
                f"the row has {tokens} tokens and carries a mask in {self.reading.mask_column}, which covers the whole "
                f"conversation, so data.truncation {self.reading.truncation} cannot remove its turns"
            )
        if self.reading.watch:
            self.reading.watch.see_trimmed(self.reading.dataset, row.line.place)
        try:
            trimmed = trim_to_fit(row.conversation, self.check, self.reading.max_length)
        except NeverFits as error:
            self.long.add(error.tokens, row.line.place)
            return
        spans = trimmed.conversation.trained_spans(self.reading.policy)
        self._keep(row, trimmed.ids, token_mask(trimmed.offsets, spans))
        self.trimmed += 1
        self.turns_removed += trimmed.turns_removed

    def _keep(self, row: Rendered, ids: list[int], trained: list[bool]) -> None:
        if self.store.add(ids, trained):
            self.masked += row.mask is not None
        else:
            self.empty.add(row.line.place)

    def finish(self) -> TokenRows:
        refuse_rows(self.bad, "cannot be trained on", CORRECT)
        self.long.refuse()
        refuse_untrained_rows(self.empty)
        if not len(self.store):
            raise no_row_left(self.reading.dataset, self.long)
        return self.store.finish(
            too_long=len(self.long), trimmed=self.trimmed, turns_removed=self.turns_removed, masked=self.masked
        )


def _trained(row: Rendered, offsets: list[tuple[int, int]]) -> list[bool]:
    return token_mask(offsets, row.spans) if row.mask is None else [bool(bit) for bit in row.mask]
