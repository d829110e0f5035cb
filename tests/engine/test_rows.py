"""The row rule on the job's side of the seam."""

import json
from pathlib import Path

import pytest
from optimize_child.reading.rows import LineRefused, check_pair, check_row, messages_of, read_row, tools_of

CASES = json.loads((Path(__file__).resolve().parents[1] / "row_cases.json").read_text())


RULES = {"chat": check_row, "pair": check_pair}


def refusals(line: bytes, rule: str = "chat") -> list:
    try:
        return RULES[rule](read_row(line))
    except LineRefused as error:
        return [error.problem]


@pytest.mark.requirement("R314", "R315", "R316", "R324", "R133", "R305")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_row_is_judged_as_the_shared_table_says(case):
    found = refusals(case["line"].encode(), case.get("rule", "chat"))
    assert [problem._asdict() for problem in found] == case["problems"]


def test_a_line_that_is_no_utf8_is_refused():
    (problem,) = refusals(b'{"messages": "\xff"}')
    assert problem == ("", "not_utf8", "Byte 15 of the line (0xff) is not UTF-8.")


@pytest.mark.requirement("R322")
def test_arguments_written_as_a_string_become_the_object_they_hold():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": [1, {"y": null}]}'}}
    plain = messages_of({"messages": [{"role": "assistant", "tool_calls": [call]}]})
    assert plain[0]["tool_calls"][0]["function"]["arguments"] == {"x": [1, {"y": None}]}
    assert plain[0]["content"] == ""


@pytest.mark.requirement("R243")
def test_a_field_in_two_shapes_reads_as_each_row_writes_it():
    def prompt(content, value):
        call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": value}}}
        row = {"messages": [{"role": "user", "content": content}, {"role": "assistant", "tool_calls": [call]},
                            {"role": "tool", "tool_call_id": "a", "content": "1"},
                            {"role": "assistant", "content": "ok"}]}  # fmt: skip
        assert check_row(row) == []
        return messages_of(row)

    as_text, as_parts = prompt("hi", 1), prompt([{"type": "text", "text": "hi"}], "1")
    assert as_text[0] == as_parts[0] == {"role": "user", "content": "hi"}
    assert [m[1]["tool_calls"][0]["function"]["arguments"] for m in (as_text, as_parts)] == [{"x": 1}, {"x": "1"}]


@pytest.mark.requirement("R321", "R323")
def test_tools_are_read_as_the_row_writes_them_and_none_stays_none():
    place = {"type": "object", "properties": {"b": {"enum": ["x", None]}, "a": {"default": None}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": place}, "strict": True}
    row = read_row(json.dumps({"tools": [tool], "messages": []}).encode())
    assert json.dumps(tools_of(row)) == json.dumps([tool])
    assert tools_of({"messages": []}) is None
    assert tools_of({"tools": []}) is None
