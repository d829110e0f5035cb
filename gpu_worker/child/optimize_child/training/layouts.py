"""How the rows of one update are laid out for the model: padded as TRL does, or end to end without padding.

Every layout trains the same tokens to the same loss; they differ in what the model computes that nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from optimize_child.reading.token_rows import IGNORED, TokenRows

# A shorter common beginning saves less than the extra attention calls cost.
SHORTEST_SHARED_PREFIX = 16


class Layout(Protocol):
    """Turns the sequences of one update into the passes the model computes, in order."""

    def passes(self, sequences: Sequence[Sequence[int]]) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Segments:
    """The shape of an unpadded pass: the length of the shared prefix, then each row's own stretch of positions."""

    prefix: int
    stretches: tuple[tuple[int, int], ...]
    _masks: dict[int, torch.Tensor] = field(default_factory=dict, compare=False, repr=False)

    def mask(self, rows: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """What a row of `rows` tokens behind the prefix may see: all of the prefix, and of itself nothing later.

        Made once for a pass and used by all its layers.
        """
        if rows not in self._masks:
            own = torch.full((rows, rows), float("-inf"), dtype=dtype, device=device).triu(1)
            before = torch.zeros((rows, self.prefix), dtype=dtype, device=device)
            self._masks[rows] = torch.cat((before, own), dim=1)
        return self._masks[rows]


@dataclass(frozen=True)
class Padded:
    """TRL's own layout: `micro` sequences a pass, padded on the right to the longest of them."""

    rows: TokenRows
    micro: int
    pad_token_id: int

    def passes(self, sequences: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        return [self._pad([row for (row,) in part]) for part in _parts(sequences, self.micro)]

    def _pad(self, indices: Sequence[int]) -> dict[str, Any]:
        rows = [self.rows.row(index) for index in indices]
        width = max(len(ids) for ids, _ in rows)
        ids = np.full((len(rows), width), self.pad_token_id, dtype=np.int64)
        labels = np.full((len(rows), width), IGNORED, dtype=np.int64)
        attended = np.zeros((len(rows), width), dtype=np.int64)
        for at, (row_ids, row_labels) in enumerate(rows):
            ids[at, : len(row_ids)] = row_ids
            labels[at, : len(row_ids)] = row_labels
            attended[at, : len(row_ids)] = 1
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(attended),
            "labels": torch.from_numpy(labels),
        }


@dataclass(frozen=True)
class Packed:
    """TRL's layout for packed rows: end to end, positions starting again at each row, which is how the model's own
    attention knows that rows do not see each other."""

    rows: TokenRows
    micro: int

    def passes(self, sequences: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        return [self._join([row for group in part for row in group]) for part in _parts(sequences, self.micro)]

    def _join(self, indices: Sequence[int]) -> dict[str, Any]:
        rows = [self.rows.row(index) for index in indices]
        return {
            "input_ids": _long_row([ids for ids, _ in rows]),
            "position_ids": _long_row([np.arange(len(ids)) for ids, _ in rows]),
            "labels": _long_row([labels for _, labels in rows]),
        }


class _Pass(NamedTuple):
    """Rows that will be computed together, and how long a beginning they share."""

    indices: list[int]
    prefix: int


@dataclass(frozen=True)
class Unpadded:
    """Rows end to end, as many a pass as `budget` tokens hold, their shared beginning computed once.

    A pass may hold the rows of several micro batches: the loss is summed over the update either way, and the tokens
    of a pass stay within what `micro` padded rows would have taken.
    """

    rows: TokenRows
    budget: int
    share_prefix: bool
    max_rows: int | None = None

    def passes(self, sequences: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        indices = [row for group in sequences for row in group]
        return [self._lay_out(part) for part in self._split(indices)]

    def _split(self, indices: Sequence[int]) -> list[_Pass]:
        """Greedily, in order: a row joins the pass while the tokens fit."""
        found: list[_Pass] = []
        for index in indices:
            joined = self._join(found[-1], index) if found else None
            if joined is None:
                found.append(_Pass([index], self._free_tokens(index)))
            else:
                found[-1] = joined
        return found

    def _join(self, part: _Pass, index: int) -> _Pass | None:
        if self.max_rows is not None and len(part.indices) >= self.max_rows:
            return None
        prefix = min(part.prefix, self._free_tokens(index))
        prefix = _shared(self.rows.row(part.indices[0])[0][:prefix], self.rows.row(index)[0])
        indices = [*part.indices, index]
        return _Pass(indices, prefix) if self._tokens(indices, prefix) <= self.budget else None

    def _free_tokens(self, index: int) -> int:
        """How much of the row's beginning could be shared: all before the position that predicts its first trained
        token, since a shared position is counted once and not once for each row."""
        labels = self.rows.row(index)[1]
        return int(np.argmax(labels != IGNORED)) - 1

    def _tokens(self, indices: Sequence[int], prefix: int) -> int:
        prefix = self._worth_sharing(prefix, len(indices))
        return prefix + sum(len(self.rows.row(index)[0]) - prefix for index in indices)

    def _worth_sharing(self, prefix: int, rows: int) -> int:
        return prefix if self.share_prefix and rows > 1 and prefix >= SHORTEST_SHARED_PREFIX else 0

    def _lay_out(self, part: _Pass) -> dict[str, Any]:
        prefix = self._worth_sharing(part.prefix, len(part.indices))
        rows = [self.rows.row(index) for index in part.indices]
        ids = [rows[0][0][:prefix], *(row[prefix:] for row, _ in rows)]
        positions = [np.arange(prefix), *(np.arange(prefix, len(row)) for row, _ in rows)]
        # Each position is labelled with the token after it, so nothing is predicted across a row's end.
        labels = [np.full(prefix, IGNORED), *(_next_labels(row_labels)[prefix:] for _, row_labels in rows)]
        ends = np.cumsum([len(row) - prefix for row, _ in rows]) + prefix
        starts = [prefix, *ends[:-1].tolist()]
        return {
            "input_ids": _long_row(ids),
            "position_ids": _long_row(positions),
            "shift_labels": _long_row(labels),
            "segments": Segments(prefix, tuple(zip(starts, ends.tolist(), strict=True))),
        }


def _next_labels(labels: np.ndarray) -> np.ndarray:
    return np.append(labels[1:], IGNORED)


def _shared(one: np.ndarray, other: np.ndarray) -> int:
    """The length of the common beginning of two rows."""
    width = min(len(one), len(other))
    differ = np.flatnonzero(one[:width] != other[:width])
    return int(differ[0]) if len(differ) else width


def _long_row(parts: Sequence[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.int64))[None]


def _parts(sequences: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [sequences[start : start + size] for start in range(0, len(sequences), size)]
