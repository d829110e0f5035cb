"""Counting the tokens of rendered conversations, and those among them that are trained.

A tokenizer splits a text at its special tokens first, and tokenises what lies between them piece by piece. Where that
is all it does at once, a conversation's length is the sum of its pieces' lengths, and a piece that many rows share (a
system prompt, a short answer) is tokenised once. Other tokenizers are given each text whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from optimize_child.rendering.masks import Span, token_mask

KEPT_CHARACTERS = 4_000_000
# Parts of a tokenizer that treat each piece between special tokens on its own, wherever in the text it stands.
BY_PIECE = frozenset(
    {"Sequence", "ByteLevel", "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "BertPreTokenizer"}
)


class Marked(NamedTuple):
    """A rendered conversation and the stretches of it that each policy trains."""

    text: str
    spans: tuple[list[Span], ...]


class Counted(NamedTuple):
    """The tokens of a conversation, and the trained ones under each policy. The first token is never trained."""

    tokens: int
    trained: tuple[int, ...]


class Counter(Protocol):
    """Counts conversations, many at once; the same numbers whichever way they are counted."""

    def count(self, conversations: Sequence[Marked]) -> list[Counted]: ...


def counter_for(tokenizer: Any) -> Counter:
    """The quickest counter that is exact for this tokenizer."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = False
    splitting = splitting_tokens(json.loads(backend.to_str()))
    return WholeTexts(backend) if splitting is None else Pieces(backend, splitting)


def splitting_tokens(tokenizer: dict[str, Any]) -> list[str] | None:
    """The tokens at which this tokenizer (its JSON) cuts a text before all else; None where pieces are not
    independent of each other."""
    parts = list(_parts(tokenizer.get("pre_tokenizer")))
    if any(part["type"] not in BY_PIECE and not _is_even(part) for part in parts):
        return None
    found = [token for token in tokenizer["added_tokens"] if not token["normalized"]]
    if any(token["lstrip"] or token["rstrip"] or token["single_word"] for token in found) or not found:
        return None
    return [token["content"] for token in found]


def _parts(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if part is None:
        return
    yield part
    for inner in part.get("pretokenizers", []):
        yield from _parts(inner)


def _is_even(part: dict[str, Any]) -> bool:
    """A Metaspace that writes its mark before every piece or before none; the usual one does so before the first."""
    return part["type"] == "Metaspace" and part.get("prepend_scheme") in ("always", "never")


class WholeTexts:
    """Counts every text by itself."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def count(self, conversations: Sequence[Marked]) -> list[Counted]:
        encodings = self._backend.encode_batch([one.text for one in conversations], add_special_tokens=False)
        return [_counted(one, encoding) for one, encoding in zip(conversations, encodings, strict=True)]


def _counted(conversation: Marked, encoding: Any) -> Counted:
    offsets = encoding.offsets
    return Counted(len(encoding), tuple(sum(token_mask(offsets, spans)[1:]) for spans in conversation.spans))


class Stretch(NamedTuple):
    """A part of a piece, by its characters."""

    piece: str
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.end - self.start == len(self.piece)


class Cut(NamedTuple):
    """A conversation's pieces in order, and the parts of them that each policy trains."""

    pieces: list[str]
    trained: list[list[Stretch]]

    def partial(self) -> Iterator[Stretch]:
        return (part for parts in self.trained for part in parts if not part.is_whole)


class Pieces:
    """Counts the pieces between special tokens, remembering what it counted."""

    def __init__(self, backend: Any, splitting: list[str]) -> None:
        self._backend = backend
        longest_first = sorted(splitting, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")").split
        self._lengths: dict[str, int] = {}
        self._insides: dict[Stretch, int] = {}
        self._kept = 0

    def count(self, conversations: Sequence[Marked]) -> list[Counted]:
        self._forget()
        cut = [self._cut(one) for one in conversations]
        self._learn([piece for one in cut for piece in one.pieces], [part for one in cut for part in one.partial()])
        return [self._add(one, found) for one, found in zip(conversations, cut, strict=True)]

    def _cut(self, conversation: Marked) -> Cut:
        pieces = [piece for piece in self._split(conversation.text) if piece]
        trained: list[list[Stretch]] = []
        for spans in conversation.spans:
            # Policies agree on rows of one turn, which most are.
            is_known = trained and spans == conversation.spans[0]
            trained.append(trained[0] if is_known else list(_inside(pieces, spans)))
        return Cut(pieces, trained)

    def _learn(self, pieces: Iterable[str], parts: Iterable[Stretch]) -> None:
        """Tokenise what is not known yet, all of it in one batch."""
        missing = {piece for piece in pieces if piece not in self._lengths}
        unknown = {part for part in parts if part not in self._insides}
        texts = list(missing.union(part.piece for part in unknown))
        encodings = dict(zip(texts, self._backend.encode_batch(texts, add_special_tokens=False), strict=True))
        for piece in missing:
            self._lengths[piece] = len(encodings[piece])
        for part in unknown:
            self._insides[part] = _tokens_inside(encodings[part.piece], part)
        self._kept += sum(map(len, missing))

    def _forget(self) -> None:
        if self._kept > KEPT_CHARACTERS:
            self._lengths.clear()
            self._insides.clear()
            self._kept = 0

    def _add(self, conversation: Marked, cut: Cut) -> Counted:
        tokens = sum(map(self._lengths.__getitem__, cut.pieces))
        trained = (
            sum(map(self._of, parts)) - (bool(spans) and spans[0].start == 0)
            for spans, parts in zip(conversation.spans, cut.trained, strict=True)
        )
        return Counted(tokens, tuple(trained))

    def _of(self, part: Stretch) -> int:
        return self._lengths[part.piece] if part.is_whole else self._insides[part]


def _inside(pieces: list[str], spans: list[Span]) -> Iterator[Stretch]:
    """What of each piece lies in a span; spans are in order and do not overlap."""
    if not spans:
        return
    waiting = iter(spans)
    span: Span | None = next(waiting)
    end = 0
    for piece in pieces:
        start, end = end, end + len(piece)
        while span is not None and span.start < end:
            if span.end > start:
                yield Stretch(piece, max(span.start, start) - start, min(span.end, end) - start)
            if span.end > end:
                break
            span = next(waiting, None)


def _tokens_inside(encoding: Any, part: Stretch) -> int:
    """How many tokens of an encoded piece have a character in its part."""
    if part.end == len(part.piece):
        first = encoding.char_to_token(part.start)
        # A token of no width just before would count by its place, so it is looked for the long way.
        if first is not None and (first == 0 or encoding.token_to_chars(first - 1)[0] < part.start):
            return len(encoding) - first
    return sum(token_mask(encoding.offsets, [Span(part.start, part.end)]))
