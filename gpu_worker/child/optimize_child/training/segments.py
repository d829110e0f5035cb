"""Attention over unpadded rows: each row attends to the shared prefix and to itself, and to no other row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from optimize_child.training.layouts import Segments

NAME = "optimize_segments"


def segment_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    segments: Segments,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The interface of transformers' attention functions; the pass's shape comes with the model's inputs."""
    if attention_mask is not None or dropout:
        raise ValueError("segments carry their own masks and know no dropout")
    grouped = key.shape[1] != query.shape[1]
    prefix = segments.prefix
    shared_key, shared_value = key[:, :, :prefix], value[:, :, :prefix]
    outputs = []
    if prefix:
        outputs.append(_attend(query[:, :, :prefix], shared_key, shared_value, None, scaling, grouped))
    for start, end in segments.stretches:
        own = slice(start, end)
        row_key, row_value, mask = key[:, :, own], value[:, :, own], None
        if prefix:
            row_key = torch.cat((shared_key, row_key), dim=2)
            row_value = torch.cat((shared_value, row_value), dim=2)
            mask = segments.mask(end - start, query.dtype, query.device)
        outputs.append(_attend(query[:, :, own], row_key, row_value, mask, scaling, grouped))
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    grouped: bool,
) -> torch.Tensor:
    causal = mask is None and query.shape[2] > 1
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=scaling, enable_gqa=grouped
    )


@contextmanager
def attention_of(model: Any, name: str) -> Iterator[None]:
    """The model computes with another attention function for a while."""
    before = model.config._attn_implementation
    model.config._attn_implementation = name
    try:
        yield
    finally:
        model.config._attn_implementation = before


AttentionInterface.register(NAME, segment_attention)
