"""How an update's completions are laid out for the model: a prompt once with its completions behind it, or padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from optimize_child.reading.token_rows import IGNORED
from optimize_child.training.layouts import Segments


class Completions(NamedTuple):
    """Some completions of one prompt, as tokens, and where the first of them stands among the update's."""

    prompt: list[int]
    completions: list[list[int]]
    first: int


class GroupLayout(Protocol):
    """Gives the passes of an update. Each says at `first` and `lengths` which completions it holds; the model's
    log-probabilities at its labels are theirs, end to end."""

    def passes(self, groups: Sequence[Completions]) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class SharedPrompt:
    """A prompt is computed once for at most `most` of its completions, which lie behind it end to end.

    The prompt's last token predicts the first of each completion, so it stands before each of them.
    """

    most: int

    def passes(self, groups: Sequence[Completions]) -> list[dict[str, Any]]:
        return [_shared(part) for part in _parts(groups, self.most)]


@dataclass(frozen=True)
class PaddedGroups:
    """Each completion behind its own copy of the prompt, padded on the right; for any model."""

    most: int
    pad_token_id: int

    def passes(self, groups: Sequence[Completions]) -> list[dict[str, Any]]:
        return [self._pad(part) for part in _parts(groups, self.most)]

    def _pad(self, part: Completions) -> dict[str, Any]:
        before, width = len(part.prompt), len(part.prompt) + max(map(len, part.completions))
        ids = np.full((len(part.completions), width), self.pad_token_id, dtype=np.int64)
        labels = np.full_like(ids, IGNORED)
        attended = np.zeros_like(ids)
        for at, completion in enumerate(part.completions):
            end = before + len(completion)
            ids[at, :end] = [*part.prompt, *completion]
            labels[at, before:end] = completion
            attended[at, :end] = 1
        inputs = {"input_ids": ids, "attention_mask": attended, "labels": labels}
        return {**{name: torch.from_numpy(array) for name, array in inputs.items()}, **_members(part)}


def _shared(part: Completions) -> dict[str, Any]:
    head, last = part.prompt[:-1], part.prompt[-1]
    prefix = len(head)
    ids = [*head, *(token for tokens in part.completions for token in (last, *tokens[:-1]))]
    positions = [*range(prefix), *(prefix + at for tokens in part.completions for at in range(len(tokens)))]
    labels = [*[IGNORED] * prefix, *(token for tokens in part.completions for token in tokens)]
    ends = np.cumsum([len(tokens) for tokens in part.completions]) + prefix
    starts = [prefix, *ends[:-1].tolist()]
    return {
        "input_ids": torch.tensor([ids]),
        "position_ids": torch.tensor([positions]),
        "shift_labels": torch.tensor([labels]),
        "segments": Segments(prefix, tuple(zip(starts, ends.tolist(), strict=True))),
        **_members(part),
    }


def _members(part: Completions) -> dict[str, Any]:
    return {"first": part.first, "lengths": torch.tensor([len(tokens) for tokens in part.completions])}


def _parts(groups: Sequence[Completions], most: int) -> Iterator[Completions]:
    for group in groups:
        for start in range(0, len(group.completions), most):
            yield Completions(group.prompt, group.completions[start : start + most], group.first + start)
