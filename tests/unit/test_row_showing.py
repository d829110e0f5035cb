"""Rows as documents: what a row holds, cut where it is large, and found by its words."""

import json
import string

import orjson
import pytest

from datasets.formats.prepared import FORMAT as PREPARED
from datasets.row_cut import cut_row
from datasets.row_documents import row_document
from datasets.row_search import FOLDING, Words, may_hide
from datasets.stored_rows import StoredRow


def stored(value):
    return StoredRow(7, "examples.jsonl", 8, value if isinstance(value, bytes) else json.dumps(value).encode())


def chat(*contents):
    return {"messages": [{"role": role, "content": text} for role, text in zip(("user", "assistant") * 9, contents,
                                                                               strict=False)]}


def test_a_row_says_where_it_stands_and_what_it_holds():
    found = row_document(stored(chat("a", "b") | {"ticket": 4}), "chat-jsonl-v1")
    assert (found["position"], found["line"], found["isCut"], found["columns"]) == (7, 8, False, {"ticket": 4})
    pair = {"prompt": chat("a")["messages"], "chosen": {"role": "assistant", "content": "b"},
            "rejected": {"role": "assistant", "content": "c"}}
    assert row_document(stored(pair), "preference-jsonl-v1")["rejected"]["content"] == "c"
    assert row_document(stored({"anything": 1}), "eval-items-v1")["item"] == {"anything": 1}


def test_token_rows_say_what_is_trained():
    found = row_document(stored({"input_ids": [5, 6, 7, 8, 9], "loss_mask": [0, 1, 1, 0, 1]}), PREPARED)
    assert (found["tokens"], found["trainedTokens"], found["trained"]) == (5, 3, [[1, 3], [4, 5]])


@pytest.mark.parametrize("row", [
    chat("q" * 5_000_000, "the answer"),
    chat(*[f"turn {number} " * 400 for number in range(18)]),
    chat("a", "b") | {"columns": {f"key {number}": "x" * 90 for number in range(60_000)}},
    chat("a", "b") | {"deep": json.loads("[" * 90 + "]" * 90), "wide": list(range(900_000))},
    chat("a", "b") | {"k" * 3_000_000: 1},
    {"messages": [{"content": "q" * 3_000_000, "role": "user"}, {"content": "b", "role": "assistant"}]},
], ids=["one long text", "many long turns", "many columns", "wide and deep", "a long key", "role behind the text"])
def test_a_large_row_is_cut_to_its_room_and_keeps_its_roles_and_its_end(row):
    room = 8_192
    found = row_document(stored(row), "chat-jsonl-v1", room=room)
    assert found["isCut"] and found["bytes"] > room
    assert len(orjson.dumps(found)) < 4 * room
    assert [message["role"] for message in found["messages"]][-1] == "assistant"
    assert found["messages"][-1]["content"]


def test_what_fits_is_not_cut():
    assert cut_row(chat("a" * 100, "b"), 2_000) == chat("a" * 100, "b")


@pytest.mark.parametrize(("words", "text", "is_there"), [
    ("blue button", "Use the  BLUE\nbutton", True), ("button blue", "Use the blue button", False),
    ("strasse", "Die lange STRAßE", True), ("STRAßE", "die strasse", True), ("café", "Un CAFÉ noir", True),
    ("привет мир", "Привет  Мир", True), ("a", "xAx", True), ("100%", "at 100% now", True),
    ("kelvin", "\u212aelvin", True), ('say "hi"', 'they say "hi" twice', True), ("tab here", "tab\there", True),
])
def test_words_are_found_whatever_their_case_and_spacing(words, text, is_there):
    row = chat("something else", text)
    for line in (json.dumps(row).encode(), json.dumps(row, ensure_ascii=False).encode()):
        assert Words(words).are_in(line) is is_there


def test_words_are_looked_for_inside_one_message_and_in_what_it_calls():
    assert not Words("first second").are_in(json.dumps(chat("first", "second")).encode())
    call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Lisboa"}}}
    row = chat("hi") | {"messages": [*chat("hi")["messages"], {"role": "assistant", "tool_calls": [call]}]}
    assert Words("get_weather").are_in(json.dumps(row).encode())
    assert Words("lisboa").are_in(json.dumps(row).encode())


def test_words_outside_messages_are_not_found():
    assert not Words("ticket").are_in(json.dumps(chat("a", "b") | {"ticket": "ticket"}).encode())


def test_every_letter_that_folds_into_a_plain_one_is_looked_out_for():
    folding = {chr(code) for code in range(128, 0x20000) if any(
        letter.isascii() and letter.isalnum() for letter in chr(code).casefold())}
    assert set(FOLDING) == folding
    for letter in folding:
        escaped = json.dumps(letter).encode()
        assert may_hide(escaped) and may_hide(escaped[:3] + escaped[3:].upper()) and may_hide(f"a{letter}é".encode())
    hidden = [chr(code) for code in range(128) if may_hide(b"\\u%04x" % code) and may_hide(b"\\u%04X" % code)]
    assert "".join(hidden) == string.digits + string.ascii_uppercase + string.ascii_lowercase
    assert not may_hide(b"\\u00e9\\u2019 ss") and not may_hide("é’ привет".encode())
