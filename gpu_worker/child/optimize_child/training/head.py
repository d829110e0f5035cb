"""Logits only where a token is trained, on the CPU too.

TRL's fused head selects the trained positions on Triton devices; elsewhere it projects every position, padding
included, and masks afterwards. The numbers are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from trl.trainer import utils


@contextmanager
def compact_head() -> Iterator[None]:
    """TRL's head selects positions before it projects, whatever the device.

    The switch is a private name of the pinned TRL; a test fails when it no longer does what it says.
    """
    before = utils._use_triton
    utils._use_triton = _always
    try:
        yield
    finally:
        utils._use_triton = before


def _always(_device: torch.device) -> bool:
    return True
