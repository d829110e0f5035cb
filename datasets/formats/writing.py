"""How writers of JSON write plain rows: what a piece of a file says is compared with what its rows are written as.

Where both are the same bytes, nothing stands in the piece but those rows, each on a line of its own: no key twice, no
space, no escape that hides a letter. It is known without a look at any of them.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import msgspec

END = b"\x01"
"""Stands behind each row while its line ends are taken out; no JSON holds it, nor does any text written as JSON."""
SPACED, CLOSE = (", ", ": "), (",", ":")
SPACED_OPENING = b'{"messages": '

_encode_lines = msgspec.json.Encoder().encode_lines


class Writing:
    """Rows whose messages have these roles, as Python's `json` writes them, or with no space at all."""

    def __init__(self, roles: Sequence[str]):
        self._spaced, self._close = _between(roles, *SPACED), _between(roles, *CLOSE)

    def is_of(self, written: bytes, texts: Sequence[list[str]]) -> bool:
        """Whether these bytes are rows with these texts (of each message in turn, those of all rows) and no more."""
        first, *others = self._spaced if written.startswith(SPACED_OPENING) else self._close
        columns = [repeat(first), *chain.from_iterable(zip(texts, map(repeat, others), strict=True))]
        pieces = _encode_lines(list(chain.from_iterable(zip(*columns, strict=False))))
        rows = pieces.replace(b"\n", b"").replace(END, b"\n")
        return len(rows) == len(written) + 1 and rows.startswith(written)


def _between(roles: Sequence[str], comma: str, colon: str) -> list[msgspec.Raw]:
    """What stands before, between and behind the texts of a row."""
    messages = [f'{{"role"{colon}"{role}"{comma}"content"{colon}' for role in roles]
    first, *later = messages
    pieces = [f'{{"messages"{colon}[{first}', *(f"}}{comma}{message}" for message in later), "}]}"]
    return [msgspec.Raw(piece.encode()) for piece in pieces[:-1]] + [msgspec.Raw(pieces[-1].encode() + END)]
