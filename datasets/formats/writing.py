"""How writers of JSON write plain rows: what a piece of a file says is compared with what its rows are written as.

Where both are the same bytes, nothing stands in the piece but those rows, each on a line of its own: no key twice, no
space, no escape that hides a letter. It is known without a look at any of them.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import msgspec

END = b"\x01"
"""Stands between rows while other line ends are taken out; no JSON holds it, nor does any text written as JSON."""
SPACED, CLOSE = (", ", ": "), (",", ":")
SPACED_OPENING = b'{"messages": '

_encode_lines = msgspec.json.Encoder().encode_lines


class Writing:
    """Rows whose messages have these roles, as Python's `json` writes them, or with no space at all."""

    def __init__(self, roles: Sequence[str]):
        self._spaced, self._close = _between(roles, *SPACED), _between(roles, *CLOSE)

    def is_of(self, written: bytes, texts: Sequence[list[str]]) -> bool:
        """Whether these bytes are rows with these texts (of each message in turn, those of all rows) and no more."""
        opening, *between, last = self._spaced if written.startswith(SPACED_OPENING) else self._close
        columns = chain.from_iterable(zip(texts, map(repeat, between), strict=True))
        pieces = [opening, *chain.from_iterable(zip(*columns, strict=False))]
        pieces[-1] = last
        return _encode_lines(pieces).replace(b"\n", b"").replace(END, b"\n") == written


def _between(roles: Sequence[str], comma: str, colon: str) -> list[msgspec.Raw]:
    """What stands before the first text, behind each text of a row, behind the last of all."""
    first, *later = [f'{{"role"{colon}"{role}"{comma}"content"{colon}' for role in roles]
    opening, closing = f'{{"messages"{colon}[{first}', "}]}"
    pieces = [opening, *(f"}}{comma}{message}" for message in later), f"{closing}{END.decode()}{opening}", closing]
    return [msgspec.Raw(piece.encode()) for piece in pieces]
