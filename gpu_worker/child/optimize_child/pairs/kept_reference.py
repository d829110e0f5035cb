"""The log-probabilities that a preference run compares with, kept beside an attempt's saves: the attempt that goes on
from one of them takes them over instead of reading every pair again.

The file is a digest of what the numbers come from, a digest of the numbers, and the numbers. Where either is not what
it should be, there is nothing to take over, and the pairs are read.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from optimize_child.code import code_version
from optimize_child.reading.token_rows import TokenRows

NAME = "reference.bin"
DIGEST_BYTES = 32
COMES_FROM = ("base_model", "config", "execution", "start", "total_steps", "strict", "threads", "device")
"""The parts of a plan that say which pairs are read, under which model, and how the numbers are rounded."""


def origin_of(plan: Mapping[str, Any], *rows: TokenRows | None) -> bytes:
    """A digest of everything that the log-probabilities of the answers in some rows come from."""
    origin = {name: plan.get(name) for name in COMES_FROM} | {"code": code_version(), "torch": torch.__version__}
    digest = hashlib.sha256(json.dumps(origin, sort_keys=True).encode())
    for part in filter(None, rows):
        for numbers in (part.starts, part.ids, part.labels):
            digest.update(f"{numbers.dtype} {len(numbers)}\0".encode())
            digest.update(numbers.data)  # where they lie: tokens are kept on the disk for want of memory
    return digest.digest()


def keep(attempt: Path, origin: bytes, reference: Mapping[int, float]) -> None:
    """Write the log-probability of each row's answer, every bit of it, into an attempt's folder."""
    numbers = array("q", reference.keys()).tobytes() + array("d", reference.values()).tobytes()
    partial = attempt / f"{NAME}.partial"
    partial.write_bytes(origin + hashlib.sha256(numbers).digest() + numbers)
    partial.rename(attempt / NAME)


def kept(attempt: Path, origin: bytes) -> dict[int, float] | None:
    """What an earlier attempt kept; None where it kept nothing whole, or something of another origin."""
    try:
        data = (attempt / NAME).read_bytes()
    except OSError:
        return None
    numbers = data[2 * DIGEST_BYTES :]
    if data[: 2 * DIGEST_BYTES] != origin + hashlib.sha256(numbers).digest():
        return None
    rows, values = array("q"), array("d")
    rows.frombytes(numbers[: len(numbers) // 2])
    values.frombytes(numbers[len(numbers) // 2 :])
    return dict(zip(rows, values, strict=True))
