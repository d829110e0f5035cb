"""The pairs of a run as flat arrays: rows 2i and 2i + 1 are pair i's prompt with its chosen and its rejected answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from optimize_child.pairs.tokens import Pair, read_pairs
from optimize_child.reading.lines import read_lines
from optimize_child.reading.row_fit import LongRows, no_row_left
from optimize_child.reading.token_rows import RowStore, TokenRows
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.template_check import TemplateCheck
from optimize_child.training.layouts import Padded, Unpadded

TICK_PAIRS = 256


def read_pair_rows(
    files: Sequence[Path],
    template: ChatTemplate,
    long_rows: LongRows,
    tick: Callable[[int], None],
    *,
    dataset: str,
    folder: Path | None = None,
) -> TokenRows:
    """Every pair as two rows whose answers are trained. Raises JobFailure naming the pairs that cannot be used."""
    pairs = read_pairs(read_lines(files), TemplateCheck(template))
    return rows_of_pairs(pairs, long_rows, tick, dataset=dataset, folder=folder)


def rows_of_pairs(
    pairs: Iterable[Pair],
    long_rows: LongRows,
    tick: Callable[[int], None] = lambda _: None,
    *,
    dataset: str,
    folder: Path | None = None,
) -> TokenRows:
    """Some pairs as two rows each, as `read_pair_rows` gives a dataset's."""
    store, count = RowStore(folder), 0
    for count, pair in enumerate(pairs, start=1):
        if pair.length > long_rows.limit:
            long_rows.add(pair.length, pair.place)
        else:
            _add(store, pair)
        if count % TICK_PAIRS == 0:
            tick(count)
    tick(count)
    long_rows.refuse()
    if not len(store):
        raise no_row_left(dataset, long_rows)
    return store.finish(too_long=len(long_rows))


def _add(store: RowStore, pair: Pair) -> None:
    for answer in (pair.chosen, pair.rejected):
        store.add([*pair.prompt, *answer], [False] * len(pair.prompt) + [True] * len(answer))


def pairs_of(rows: TokenRows) -> list[list[int]]:
    """The two rows of each pair: what the trainer takes as one sequence."""
    return [[first, first + 1] for first in range(0, len(rows), 2)]


@dataclass(frozen=True)
class OnePair:
    """A pair a pass, end to end, its prompt computed once: the logits of no other pair are held."""

    rows: TokenRows
    first: int = 0
    """The number of the first row among all that a run reads: validation rows are counted after training rows."""

    def passes(self, sequences: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        return [self._lay_out(pair) for pair in sequences]

    def _lay_out(self, pair: Sequence[int]) -> dict[str, Any]:
        longest = int(self.rows.lengths()[list(pair)].sum())
        (found,) = Unpadded(self.rows, budget=longest, share_prefix=True).passes([[row] for row in pair])
        return {**found, "rows": torch.tensor(list(pair)) + self.first}


@dataclass(frozen=True)
class PaddedPairs:
    """`micro` pairs a pass, padded on the right to the longest row of them."""

    rows: TokenRows
    micro: int
    pad_token_id: int
    first: int = 0

    def passes(self, sequences: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        starts = range(0, len(sequences), self.micro)
        return [self._pad([row for pair in sequences[at : at + self.micro] for row in pair]) for at in starts]

    def _pad(self, indices: list[int]) -> dict[str, Any]:
        layout = Padded(self.rows, len(indices), self.pad_token_id)
        (found,) = layout.passes([[row] for row in indices])
        return {**found, "rows": torch.tensor(indices) + self.first}
