"""The rows of a run as flat arrays of tokens and labels, kept on the disk and read as if they lay in memory."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

IGNORED = -100


@dataclass(frozen=True)
class TokenRows:
    """Row i is `ids[starts[i]:starts[i + 1]]`; its labels are the ids, -100 where not trained.

    The counts say what became of the dataset's other rows: left out as too long, trimmed to fit and by how many
    turns; and how many rows brought their own mask.
    """

    ids: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    too_long: int = 0
    trimmed: int = 0
    turns_removed: int = 0
    masked: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def row(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a row and its labels."""
        part = slice(self.starts[index], self.starts[index + 1])
        return self.ids[part], self.labels[part]

    def trained_tokens(self) -> int:
        return int(np.count_nonzero(self.labels != IGNORED))


class RowStore:
    """Takes rows one by one and gives them back as arrays. Tokens go to unnamed files in `folder`, not to memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._ids = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the arrays read from it as long as they live
        self._labels = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._lengths = array("i")

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, ids: Sequence[int] | np.ndarray, trained: Sequence[bool] | np.ndarray) -> bool:
        """Keep a row; False, and nothing is kept, where no token of it can be trained.

        The first token is predicted from nothing, so it is never trained.
        """
        mask = np.array(trained, dtype=bool)
        mask[0] = False
        if not mask.any():
            return False
        tokens = np.asarray(ids, dtype=np.int32)
        self._ids.write(tokens.tobytes())
        self._labels.write(np.where(mask, tokens, np.int32(IGNORED)).tobytes())
        self._lengths.append(len(tokens))
        return True

    def finish(self, **counts: int) -> TokenRows:
        """The rows added so far, with the counts of those that were not."""
        starts = np.zeros(len(self._lengths) + 1, dtype=np.int64)
        np.cumsum(self._lengths, out=starts[1:])
        return TokenRows(_as_array(self._ids), _as_array(self._labels), starts, **counts)


class TokenLists:
    """Lists of tokens in an unnamed file of `folder`: memory holds where each begins."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - read from as long as the lists are
        self._starts = array("q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, tokens: Sequence[int]) -> None:
        """Keep a list, an empty one too."""
        self._file.write(np.asarray(tokens, dtype=np.int32).tobytes())
        self._starts.append(self._starts[-1] + len(tokens))

    def length(self, at: int) -> int:
        """How many tokens the list at `at` has."""
        return self._starts[at + 1] - self._starts[at]

    def tokens(self, at: int) -> list[int]:
        """The list at `at`."""
        self._file.flush()
        read = os.pread(self._file.fileno(), 4 * self.length(at), 4 * self._starts[at])
        return np.frombuffer(read, dtype=np.int32).tolist()


def _as_array(file: IO[bytes]) -> np.ndarray:
    file.flush()
    return np.memmap(file, dtype=np.int32, mode="r+").view(np.ndarray)
