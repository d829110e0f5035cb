"""The column in which a row brings its own loss mask."""

from __future__ import annotations

from typing import Any

from optimize_child.failures import JobFailure
from optimize_child.rendering.masks import MaskRefused


def explicit_mask(row: dict[str, Any], column: str | None) -> list[int] | None:
    """The mask a row brings, None where it brings none. Raises MaskRefused for one that cannot be a mask."""
    mask = row.get(column) if column else None
    if mask is None:
        return None
    if not isinstance(mask, list) or not mask or any(type(bit) is not int or bit not in (0, 1) for bit in mask):
        raise MaskRefused(f"{column} is not a list of 0 and 1")
    if mask[0] == 1:
        raise MaskRefused(f"{column} selects the first token, which nothing predicts")
    if 1 not in mask:
        raise MaskRefused(f"{column} selects no token")
    return mask


def require_length(mask: list[int], column: str | None, tokens: int) -> None:
    """A mask has an entry for each token of its row; raises MaskRefused with both numbers."""
    if len(mask) != tokens:
        raise MaskRefused(f"{column} has {len(mask)} entries and the row has {tokens} tokens")


def require_masks(column: str | None, masked: int, dataset: str) -> None:
    """Each dataset of a run that names a column holds at least one mask in it; raises JobFailure."""
    if column and not masked:
        raise JobFailure(
            "bad_row",
            f"No row of the {dataset} dataset carries a mask in {column}.",
            hint="Correct the masks, or leave loss.explicitLossMaskColumn out to use the other loss settings.",
        )
