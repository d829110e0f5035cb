"""Hashes a file while it is read: its bytes, and its rows, which are the lines that hold one, joined by LF."""

import hashlib
from collections.abc import Iterable

from datasets.lines import lines_of, read_batches

LF = b"\n"


class Identity:
    """SHA-256 of a file's bytes and of its rows; of several files in order, of the rows of all of them.

    Where every line so far is a row as it stands, both are one hash but for the last LF: a copy tells them apart.
    """

    def __init__(self) -> None:
        self._rows = hashlib.sha256()
        self._bytes: hashlib._Hash | None = None
        self._has_rows = self._owes_lf = False

    def add_exact(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Bytes that are rows with an LF after each: no blank line, no CR, no byte order mark."""
        for piece in pieces:
            if self._bytes is not None:
                self._bytes.update(piece)
            ends_line = piece[-1:] == LF
            if self._owes_lf:
                self._rows.update(LF)
            self._rows.update(memoryview(piece)[:-1] if ends_line else piece)
            self._owes_lf, self._has_rows = ends_line, True

    def add(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Bytes of whole lines, of which some are no rows as they stand. The first bytes are a file's beginning."""
        for batch in read_batches(self._passing(pieces)):
            for line in () if batch.is_blank else lines_of(batch):
                if not line.is_blank:
                    self._rows.update(LF + line.data if self._has_rows else line.data)
                    self._has_rows = self._owes_lf = True

    def going_on(self) -> "Identity":
        """The same rows, for those of another file to follow; they change nothing here."""
        whole = Identity()
        whole._rows, whole._has_rows, whole._owes_lf = self._rows.copy(), self._has_rows, self._has_rows
        return whole

    def rows_hash(self, suffix: bytes = b"") -> str:
        """The hash of the rows, and of what a format puts behind them."""
        whole = self._rows.copy()
        whole.update(suffix)
        return whole.hexdigest()

    def bytes_hash(self) -> str:
        """The hash of the bytes, of one file."""
        return self._all_bytes().hexdigest()

    def _passing(self, pieces: Iterable[bytes | memoryview]) -> Iterable[bytes]:
        if self._bytes is None:
            self._bytes = self._all_bytes()
        for piece in pieces:
            self._bytes.update(piece)
            yield bytes(piece)

    def _all_bytes(self) -> "hashlib._Hash":
        whole = (self._bytes or self._rows).copy()
        if self._bytes is None and self._owes_lf:
            whole.update(LF)
        return whole
