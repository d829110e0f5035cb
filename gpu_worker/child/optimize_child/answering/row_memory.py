"""Keys and values of rows being answered: the shared beginning once, each row's own part in a buffer that grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "optimize_answers"
ROOM = 64


class RowMemory:
    """The attention state of up to `slots` rows. The model's layers read and write it through `answer_attention`."""

    def __init__(self, layers: int, slots: int, device: torch.device) -> None:
        self.device = device
        self.prefix: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.prefix_tokens = 0
        self.keys: list[torch.Tensor | None] = [None] * layers
        self.values: list[torch.Tensor | None] = [None] * layers
        self.slots = slots
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.phase: Phase | None = None

    def reserve(self, tokens: int) -> None:
        """Make room for rows of `tokens` tokens; a grown buffer keeps what it held."""
        for layer, held in enumerate(self.keys):
            if held is not None and held.shape[2] < tokens:
                more = (0, 0, 0, tokens + ROOM - held.shape[2])
                self.keys[layer] = pad(held, more)
                self.values[layer] = pad(self.values[layer], more)

    def buffers(self, layer: int, like: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The buffers of one layer, made on first use for at least `tokens` tokens a row."""
        if self.keys[layer] is None:
            shape = (self.slots, like.shape[1], tokens + ROOM, like.shape[3])
            self.keys[layer], self.values[layer] = like.new_zeros(shape), like.new_zeros(shape)
        return self.keys[layer], self.values[layer]

    def copy(self, sources: Sequence[int], slots: Sequence[int]) -> None:
        """Give each slot what its source holds, before any of them has been stepped."""
        width = int(self.lengths[list(sources)].max())
        for held in (*self.keys, *self.values):
            if held is not None:
                held[slots, :, :width] = held[sources, :, :width]
        self.lengths[slots] = self.lengths[sources]

    def select(self, kept: Sequence[int]) -> None:
        """Keep only these slots, in this order."""
        index = torch.as_tensor(kept, dtype=torch.long, device=self.device)
        self.keys = [None if held is None else held[index] for held in self.keys]
        self.values = [None if held is None else held[index] for held in self.values]
        self.lengths = self.lengths[index]
        self.slots = len(kept)


class Phase:
    """What one forward pass does with the memory."""

    def attend(
        self, memory: RowMemory, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        raise NotImplementedError


class Prefix(Phase):
    """The shared beginning, computed once."""

    def attend(self, memory, layer, query, key, value, scale):
        memory.prefix.append((key, value))
        return _causal(query, key, value, None, scale)


class Prompts(Phase):
    """What is left of several prompts, end to end in one row; each goes to its slot."""

    def __init__(self, memory: RowMemory, slots: Sequence[int], lengths: Sequence[int]) -> None:
        self.slots, self.lengths = slots, lengths
        self.masks = {length: _lower_right(length, memory.prefix_tokens) for length in set(lengths)}

    def attend(self, memory, layer, query, key, value, scale):
        keys, values = memory.buffers(layer, key, max(self.lengths))
        outputs, start = [], 0
        for slot, length in zip(self.slots, self.lengths, strict=True):
            own = slice(start, start + length)
            row_key, row_value = key[:, :, own], value[:, :, own]
            keys[slot, :, :length], values[slot, :, :length] = row_key[0], row_value[0]
            mask = None
            if memory.prefix_tokens:
                shared_key, shared_value = memory.prefix[layer]
                row_key = torch.cat((shared_key, row_key), dim=2)
                row_value = torch.cat((shared_value, row_value), dim=2)
                mask = self.masks[length].to(query)
            outputs.append(_causal(query[:, :, own], row_key, row_value, mask, scale))
            start += length
        return torch.cat(outputs, dim=2)


class Step(Phase):
    """One more token of every row: against the shared beginning as one product, against its own part as a batch."""

    def __init__(self, memory: RowMemory) -> None:
        self.positions = memory.lengths
        self.width = int(self.positions.max()) + 1
        self.rows = torch.arange(memory.slots, device=memory.device)
        seen = torch.arange(self.width, device=memory.device)[None] <= self.positions[:, None]
        self.hidden = ~seen[:, None, None]

    def attend(self, memory, layer, query, key, value, scale):
        keys, values = memory.buffers(layer, key, self.width)
        keys[self.rows, :, self.positions] = key[:, :, 0]
        values[self.rows, :, self.positions] = value[:, :, 0]
        rows, heads, _, size = query.shape
        groups = key.shape[1]
        asked = query.view(rows, groups, heads // groups, size) * scale
        own_keys, own_values = keys[:, :, : self.width], values[:, :, : self.width]
        scores = (asked @ own_keys.transpose(2, 3)).masked_fill(self.hidden, float("-inf"))
        if not memory.prefix_tokens:
            return (scores.softmax(-1, dtype=torch.float32).to(query) @ own_values).view(rows, heads, 1, size)
        shared_key, shared_value = (part[0] for part in memory.prefix[layer])
        flat = asked.transpose(0, 1).reshape(groups, -1, size)
        before = (flat @ shared_key.transpose(1, 2)).view(groups, rows, heads // groups, -1).transpose(0, 1)
        weights = torch.cat((before, scores), dim=-1).softmax(-1, dtype=torch.float32).to(query)
        on_prefix, on_own = weights.split((memory.prefix_tokens, self.width), dim=-1)
        shared = on_prefix.transpose(0, 1).reshape(groups, -1, memory.prefix_tokens) @ shared_value
        shared = shared.view(groups, rows, heads // groups, size).transpose(0, 1)
        return (shared + on_own @ own_values).reshape(rows, heads, 1, size)


def answer_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    memory: RowMemory,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The interface of transformers' attention functions over a RowMemory in its present phase."""
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    output = memory.phase.attend(memory, module.layer_idx, query, key, value, scale)
    return output.transpose(1, 2).contiguous(), None


def _causal(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    causal, grouped = mask is None and query.shape[2] > 1, key.shape[1] != query.shape[1]
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def _lower_right(rows: int, prefix: int) -> torch.Tensor:
    own = torch.full((rows, rows), float("-inf")).triu(1)
    return torch.cat((torch.zeros((rows, prefix)), own), dim=1)


AttentionInterface.register(NAME, answer_attention)
