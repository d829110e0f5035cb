"""The tools that an answer calls, as judges and services are told of them."""

import pytest

from evaluations.calls import calls_in

TOOLS = [{"type": "function", "function": {"name": "weather"}}, {"name": "time"}]
WEATHER = {"name": "weather", "arguments": {"city": "Bern"}}


@pytest.mark.parametrize(("answer", "calls"), [
    ('<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>', [WEATHER]),
    ('I look.\n<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>\n'
     '<tool_call>{"name": "time"}</tool_call>', [WEATHER, {"name": "time", "arguments": {}}]),
    ('<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}', [WEATHER]),
    ('[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Bern"}}]', [WEATHER]),
    ('{"name": "weather", "parameters": {"city": "Bern"}}', [WEATHER]),
    ('{"name": "rocket", "arguments": {}}', None), ('<tool_call>{"name": "weather"</tool_call>', None),
    ("It is cold in Bern.", None), ("", None), ("[" * 100_000, None), ('{"name": ["weather"]}', None), ("7", None),
    ('<think><tool_call>{"name": "time"}</tool_call></think>It is late.', None)])
def test_calls_are_read_as_templates_write_them_and_only_of_tools_that_were_offered(answer, calls):
    assert calls_in(answer, TOOLS) == calls


def test_without_tools_nothing_is_a_call():
    assert calls_in('{"name": "weather", "arguments": {}}', None) is None
