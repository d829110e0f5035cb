"""The row rule, against the table that jobs are held to as well."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.pairs import as_rows, read_pair
from datasets.rows import EXAMPLES, MAX_PROBLEMS, RowRefused, answer_text, check_row, images_of, read_row, text_of
from datasets.strict_json import LineRefused, parse_line

CASES = json.loads((Path(__file__).resolve().parents[1] / "row_cases.json").read_text())
GOOD = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'


RULES = {"chat": read_row, "pair": read_pair}


def refusals(line: bytes, rule: str = "chat") -> list:
    try:
        RULES[rule](line)
    except RowRefused as error:
        return error.problems
    return []


@pytest.mark.requirement("R314", "R315", "R316", "R324", "R027", "R133", "R305")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_row_is_judged_as_the_shared_table_says(case):
    found = refusals(case["line"].encode(), case.get("rule", "chat"))
    assert [{"path": problem.path, "code": problem.code, "message": problem.message} for problem in found] == (
        case["problems"])


@pytest.mark.parametrize("case", [case for case in CASES if case["problems"]], ids=lambda case: case["name"])
def test_every_refusal_shows_the_right_form(case):
    for problem in refusals(case["line"].encode(), case.get("rule", "chat")):
        assert problem.message.endswith((".", "!"))
        assert problem.hint


@pytest.mark.parametrize(("line", "code", "path"), [
    (b'{"messages": [{"role": "user", "content": "caf\xe9"}]}', "not_utf8", ""),
    (b"\xef\xbb\xbf" + GOOD.encode(), "byte_order_mark", ""),
    (b'{"messages": [{"role": "user", "role": "user", "content": "a"}]}', "duplicate_key", "messages[0].role"),
    (b'{"a": {"b\\u003a": 1, "b:": 2}}', "duplicate_key", "a.b:"),
    (b'{"a": ' + b"[" * 900 + b"]" * 900 + b', "a": 1}', "nested_too_deep", ""),
    (b'{"a": -Infinity}', "not_a_number", "a"),
    (b'{"a": 1e999}', "number_out_of_range", "a"),
    (b'{"a": ' + b"1" * 10_000 + b"}", "number_too_long", "a"),
    (b'{"a": 0.' + b"1" * 10_000 + b"}", "number_too_long", "a"),
    (b"[" * 100_000, "nested_too_deep", ""),
    (b'{"a": ' * 101 + b"1" + b"}" * 101, "nested_too_deep", ""),
    (b'{"messages": [{"role": "user", "content": "\\u0000"}]}', "nul_character", "messages[0].content"),
    (b'{"a": "\\ud800"}', "lone_surrogate", "a"),
    (b'{"a": "say "hello""}', "not_json", ""),
    (b'{"a": "first\nsecond"}', "not_json", ""),
    (b"{'a': 1}", "not_json", ""),
    (b'{"a": 1,}', "not_json", ""),
])
def test_a_line_is_read_strictly(line, code, path):
    problem = refusals(line)[0]
    assert (problem.code, problem.path) == (code, path)
    assert problem.hint


@pytest.mark.parametrize("line", [
    b'{"a": "' + b"1" * 10_000 + b'"}',
    b'{"a": "NaN, Infinity"}',
    b'{"a": "b: \\u003a \\\\u0000 \\"c\\": "}',
    b'{"a": ' * 100 + b"1" + b"}" * 100,
    b' \t{"a": 1e5, "b": -0.0, "c": 12345678901234567890} ',
])
def test_what_only_looks_wrong_is_read(line):
    assert parse_line(line) == json.loads(line)


def test_one_line_names_no_more_than_the_first_problems():
    assert len(check_row({"messages": [7] * 100_000})) == MAX_PROBLEMS


def test_a_row_of_another_kind_is_told_how_to_become_a_chat_row():
    assert "user message" in check_row({"instruction": "a", "output": "b"})[0].hint
    assert "from and value" in check_row({"conversations": []})[0].hint
    assert "preference pair" in check_row({"chosen": {}, "rejected": {}})[0].hint


def test_quoted_text_is_kept_short():
    problem = check_row({"messages": [{"role": "x" * 10_000}]})[0]
    assert len(problem.message) < 200


def test_the_answer_and_the_images_of_a_row():
    asked = [{"type": "text", "text": "a"}, {"type": "image", "path": "p.png"}]
    answered = [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]
    row = {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]}
    assert answer_text(row) == "bc"
    assert list(images_of(row)) == [("messages[0].content[1]", "p.png")]
    assert text_of(None) == ""


def test_every_code_has_an_example():
    used = {problem["code"] for case in CASES for problem in case["problems"]}
    lines = {"not_json", "duplicate_key", "not_a_number", "number_out_of_range", "number_too_long", "nested_too_deep",
             "nul_character", "lone_surrogate", "byte_order_mark"}
    assert used - lines <= EXAMPLES.keys()


def test_a_pair_stands_for_its_prompt_with_each_answer():
    better, worse = {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"}
    asked = {"role": "user", "content": "a"}
    pair = read_pair(json.dumps({"prompt": [asked], "chosen": better, "rejected": worse}).encode())
    assert [row["messages"] for row in as_rows(pair)] == [[asked, better], [asked, worse]]


@pytest.mark.requirement("R305")
def test_a_row_of_the_other_form_is_told_that_a_dataset_holds_one():
    for rule, line in (("chat", b'{"chosen": {}, "rejected": {}}'), ("pair", b'{"messages": []}')):
        assert "not both" in refusals(line, rule)[0].hint


SCALARS = (st.none() | st.booleans() | st.integers(-2**53, 2**53) | st.floats(allow_nan=False, allow_infinity=False)
           | st.text(max_size=8))
KEYS = st.sampled_from(["a", "b", "a:", "messages", "role", ""]) | st.text(max_size=3)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
                      max_leaves=12)


def has_repeated_key(line: str) -> bool:
    found = []

    def hook(pairs):
        found.append(len(dict(pairs)) != len(pairs))
        return dict(pairs)

    json.loads(line, object_pairs_hook=hook)
    return any(found)


@given(VALUES, st.booleans())
def test_a_written_value_is_read_back(value, ascii_only):
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        read = parse_line(line)
    except LineRefused as error:
        assert error.problem.code in {"nul_character", "lone_surrogate", "not_utf8"}
        return
    assert read == json.loads(line)


MEMBERS = st.lists(st.tuples(st.sampled_from([r'"a"', r'"\u0061"', r'"a:"', r'"a\u003a"', r'"b"', '"é"', '"e\u0301"']),
                             st.sampled_from(["1", '":"', r'"\u003A"', '{"x": ":"}', "[]"])), max_size=5)


@given(MEMBERS, MEMBERS)
def test_a_repeated_key_is_found_however_it_is_spelt(outer, inner):
    def written(members):
        return "{" + ", ".join(f"{key}: {value}" for key, value in members) + "}"

    line = written([*outer, ('"in"', written(inner))])
    found = refusals(line.encode())
    assert (found[0].code == "duplicate_key") == has_repeated_key(line)


@given(VALUES)
def test_no_value_breaks_the_rule(value):
    assert isinstance(check_row(value), list)
    assert isinstance(check_row({"messages": value, "tools": value}), list)
    answer = {"role": "assistant", "content": value, "tool_calls": value}
    assert isinstance(check_row({"messages": [value, answer]}), list)
