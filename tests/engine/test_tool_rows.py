"""Rows with tools as training reads them: each as its own line writes it, none left out, none like its neighbours."""

import json

import pytest
from optimize_child.failures import JobFailure
from optimize_child.reading.rows import messages_of, tools_of
from optimize_child.reading.token_rows import IGNORED
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.masks import Conversation, Policy
from optimize_child.rendering.template_check import TemplateCheck
from test_masks import call, say, stock
from test_truncation import LLAMA, OFFERING, read_run  # noqa: F401 - a fixture

RESULT = {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "in Lyon"}
PLAIN = {"messages": [{"role": "system", "content": "help"}, *say("where is it", "On its way.")]}


def tool(name: str, **properties) -> dict:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TRACK = tool("track", z={"enum": [["a", None], {"b": 1.0}], "default": None}, a={"type": "string"})
PAY = tool("pay", amount={"type": "number"})


def calling(arguments=None, **message) -> dict:
    """A row whose first answer calls a tool; `message` is what else that answer holds."""
    calls = [call() | {"function": {"name": "track", "arguments": {"z": 1} if arguments is None else arguments}}]
    answers = [{"role": "assistant", "tool_calls": calls, **message}, RESULT, {"role": "assistant", "content": "Lyon."}]
    return {"messages": [*say("where is it"), *answers]}


@pytest.fixture
def read(write_rows):
    """Reads rows as a supervised run over Qwen 2.5 or another family does."""

    def read(rows, family="qwen2.5", policy=Policy(all_turns=True)):  # noqa: B008
        chat = stock(family)
        found = read_tokens([write_rows(rows)], chat, Reading(policy, 4000, "error"), lambda _done: None)
        kept = [found.row(at) for at in range(len(found))]
        return [(chat.tokenizer.decode(ids), chat.tokenizer.decode(ids[labels != IGNORED])) for ids, labels in kept]

    return read


@pytest.mark.requirement("R321")
def test_f23_a_row_is_rendered_with_its_own_tools_and_arguments_and_no_field_of_another_row(read):
    rows = [calling({"z": 1, "a": None}) | {"tools": [TRACK]}, calling({"amount": "7"}) | {"tools": [PAY]}]
    first, second = (text for text, _ in read(rows))
    assert json.dumps(TRACK) in first and json.dumps(PAY) in second
    assert '"arguments": {"z": 1, "a": null}' in first and '"arguments": {"amount": "7"}' in second
    assert "amount" not in first and "null" not in second


@pytest.mark.requirement("R322")
def test_arguments_written_as_a_string_are_trained_as_the_object_they_hold(read):
    as_text, as_object = read([calling('{"z": {"b": null, "a": 7}}'), calling({"z": {"b": None, "a": 7}})])
    assert as_text == as_object
    assert '"arguments": {"z": {"b": null, "a": 7}}' in as_text[1]


@pytest.mark.parametrize("family", ["qwen2.5", "llama3.2"])
def test_f25_calls_that_are_null_or_none_read_as_absent(read, family):
    """Some templates ask whether a message has the key."""
    question, answer = say("where is it", "On its way.")
    rows = [{"messages": [question, answer | more]} for more in ({}, {"tool_calls": None}, {"tool_calls": []})]
    absent, null, empty = read(rows, family)
    assert absent == null == empty
    assert "On its way." in absent[1]


def test_f26_a_call_without_text_is_kept_whether_its_text_is_null_empty_or_absent(read):
    absent, null, empty = read([calling(), calling(content=None), calling(content="")])
    assert absent == null == empty
    assert '{"name": "track", "arguments": {"z": 1}}' in absent[1] and "None" not in absent[0]


def test_f27_tools_that_are_none_or_an_empty_list_read_as_absent(read):
    absent, null, empty = read([PLAIN, PLAIN | {"tools": None}, PLAIN | {"tools": []}], "llama3.2")
    assert absent == null == empty
    assert "Environment: ipython" not in absent[0]


@pytest.mark.requirement("R323", "R339")
@pytest.mark.parametrize("family", ["qwen2.5", "llama3.2"])
def test_f28_of_rows_with_and_without_tools_all_are_trained_each_as_it_stands(read, family):
    offering = PLAIN | {"tools": [TRACK]}
    found = read([offering, PLAIN] * 10, family)
    alone = [read([row], family)[0] for row in (offering, PLAIN)]
    assert found == alone * 10
    assert ["track" in text for text, _ in alone] == [True, False]
    assert {trained.startswith("On its way.") for _, trained in found} == {True}


@pytest.mark.requirement("R331")
def test_llama_renders_a_row_of_one_turn_with_its_system_message_and_tools_and_finds_the_answer_in_it():
    """Its template refuses the system message alone beside tools, and no mask needs it alone."""
    row = PLAIN | {"tools": [TRACK]}
    conversation = Conversation(TemplateCheck(stock("llama3.2")), messages_of(row), tools_of(row))
    (span,) = conversation.trained_spans(Policy())
    assert conversation.text[span.start : span.end] == "On its way.<|eot_id|>"
    assert "help<|eot_id|>" in conversation.text and '"name": "track"' in conversation.text


@pytest.mark.requirement("R331")
def test_llama_refuses_such_a_row_beside_one_whose_oldest_turns_would_have_to_go(read_run):  # noqa: F811
    changes = {**LLAMA, "config.data.truncation": "oldest_or_drop", "config.maxSeqLength": 60}
    with pytest.raises(JobFailure, match="line 2 of the training dataset is longer than maxSeqLength"):
        read_run([OFFERING, {"messages": say("late " * 80, "no")}], **changes)
