"""Token ids as text again, for looking at: reads the vocabulary of a `tokenizer.json` by itself. Pure.

Knows the two ways in which the base models write bytes into their vocabularies: as letters standing for bytes, and with
a mark for the space and `<0x0A>` for single bytes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

SPACE = "\u2581"


def text_pieces(file: Path, ids: Sequence[int], mask: Sequence[int]) -> list[dict[str, Any]] | None:
    """The text of tokens in pieces, each `{"text", "isTrained"}`; None where the vocabulary is written in another way.

    Raises OSError where the file is gone, ValueError where it is no tokenizer's.
    """
    written = orjson.loads(file.read_bytes())
    to_bytes = _reader(written)
    if to_bytes is None:
        return None
    spelled = _spellings(written, set(ids))
    special = {token["id"]: token["content"].encode() for token in written.get("added_tokens") or []}
    pieces: list[tuple[bool, bytearray]] = []
    for token, is_trained in zip(ids, mask, strict=True):
        if not pieces or pieces[-1][0] != bool(is_trained):
            pieces.append((bool(is_trained), bytearray()))
        pieces[-1][1].extend(special[token] if token in special else to_bytes(spelled.get(token, "\ufffd")))
    return [{"text": text.decode(errors="replace"), "isTrained": is_trained} for is_trained, text in pieces]


def _spellings(written: dict[str, Any], wanted: set[int]) -> dict[int, str]:
    """How the vocabulary writes the wanted tokens."""
    vocabulary = written["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return {token: piece for piece, token in vocabulary.items() if token in wanted}
    return {token: vocabulary[token][0] for token in wanted if token < len(vocabulary)}


def _reader(written: dict[str, Any]) -> Any:
    """What gives the bytes that a piece of the vocabulary stands for, or None."""
    decoders = list(_flat(written.get("decoder") or {}))
    kinds = {decoder.get("type") for decoder in decoders}
    if "ByteLevel" in kinds:
        return _letters_to_bytes
    marks = {decoder.get("replacement") or (decoder.get("pattern") or {}).get("String") for decoder in decoders}
    return _marked_to_bytes if SPACE in marks else None


def _flat(decoder: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for part in decoder.get("decoders") or [decoder]:
        yield from _flat(part) if part.get("decoders") else [part]


def _byte_letters() -> dict[str, int]:
    """The letter that stands for each byte: itself where it prints, else the next one from U+0100 on."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in prints]
    return {chr(byte): byte for byte in prints} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


LETTERS = _byte_letters()


def _letters_to_bytes(piece: str) -> bytes:
    return b"".join(bytes([LETTERS[letter]]) if letter in LETTERS else letter.encode() for letter in piece)


def _marked_to_bytes(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace(SPACE, " ").encode()
