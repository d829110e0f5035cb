"""Token ids as text again."""

import json

import pytest

from datasets.token_text import text_pieces

BYTE_LEVEL = {"decoder": {"type": "ByteLevel"}, "added_tokens": [{"id": 9, "content": "<|im_end|>", "special": True}],
              "model": {"vocab": {"Hello": 0, "\u0120w\u00c3\u00b6": 1, "rld": 2, "\u010a": 3, "\u00c3": 4,
                                  "\u00a9": 5}}}
MARKED = {"decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}]},
    "model": {"vocab": [["\u2581Hi", 0.0], ["\u2581there", -1.0], ["<0x0A>", -2.0], ["<0xC3>", 0], ["<0xA9>", 0]]}}


@pytest.mark.parametrize(("tokenizer", "ids", "mask", "pieces"), [
    (BYTE_LEVEL, [0, 1, 2, 3, 9], [0, 0, 1, 1, 1], [("Hello w\u00f6", False), ("rld\n<|im_end|>", True)]),
    (BYTE_LEVEL, [4, 5, 7], [1, 1, 1], [("\u00e9\ufffd", True)]),
    (MARKED, [0, 1, 2, 3, 4], [0, 1, 1, 0, 0], [(" Hi", False), (" there\n", True), ("\u00e9", False)]),
])
def test_tokens_are_text_again_with_the_trained_part_marked(tmp_path, tokenizer, ids, mask, pieces):
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(tokenizer))
    found = text_pieces(file, ids, mask)
    assert [(piece["text"], piece["isTrained"]) for piece in found] == pieces


def test_a_vocabulary_written_in_another_way_gives_no_text(tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"decoder": {"type": "WordPiece"}, "model": {"vocab": {"a": 0}}}))
    assert text_pieces(file, [0], [1]) is None
