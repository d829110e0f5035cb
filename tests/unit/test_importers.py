"""Data of other tools as rows: what becomes of each kind of record, and the report of what changed."""

import json

import pytest

from datasets.errors import ImportRefused
from datasets.importers.convert import KINDS, detect_kind
from tests.importing import CHAT_ROW, HELPER, OTHER, PAIR_ROW, TOOL, USER, codes, imported

CALLED = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
CASES = {
    "openai-chat": ({"messages": [{"role": "developer", "content": "s"}, USER, CALLED,
                                  {"role": "function", "name": "f", "content": "1"}, HELPER | {"weight": 1}],
                     "functions": [{"name": "f", "parameters": {}}], "parallel_tool_calls": False},
                    {"messages": [{"role": "system", "content": "s"}, USER, {
                        "role": "assistant", "content": None, "tool_calls": [
                            {"id": "call_2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                        {"role": "tool", "name": "f", "content": "1", "tool_call_id": "call_2"}, HELPER],
                     "tools": [TOOL]},
                    {"developer_role", "function_call", "function_role", "functions"},
                    {"messages.weight", "parallel_tool_calls"}),
    "openai-dpo": ({"input": {"messages": [USER], "tools": [TOOL], "parallel_tool_calls": True},
                    "preferred_output": [HELPER], "non_preferred_output": [OTHER]},
                   {"prompt": [USER], "tools": [TOOL], "chosen": HELPER, "rejected": OTHER}, set(),
                   {"input.parallel_tool_calls"}),
    "openai-rft": ({"messages": [USER], "reference_answer": {"x": "é"}, "level": 3},
                   {"messages": [USER, {"role": "assistant", "content": '{"x": "é"}'}], "level": 3},
                   {"answer_added"}, set()),
    "sharegpt": ({"id": "7", "system": "s", "tools": json.dumps([{"name": "f", "parameters": {}}]), "conversations": [
        {"from": "human", "value": "a"}, {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
        {"from": "observation", "value": "1"}, {"from": "gpt", "value": "b"}]},
                 {"messages": [{"role": "system", "content": "s"}, USER, {
                     "role": "assistant", "content": "", "tool_calls": [
                         {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
                     {"role": "tool", "tool_call_id": "call_1", "content": "1"}, HELPER], "tools": [TOOL]},
                 {"roles", "system_column", "tools_text", "tool_ids"}, {"id"}),
    "alpaca": ({"instruction": "a", "input": "x", "output": "b", "history": [["h", "i"]]},
               {"messages": [{"role": "user", "content": "h"}, {"role": "assistant", "content": "i"},
                             {"role": "user", "content": "a\n\nx"}, HELPER]}, {"text_prompt"}, set()),
    "preference": ({"chosen": [USER, HELPER], "rejected": [USER, OTHER], "score": 3},
                   {"prompt": [USER], "chosen": HELPER, "rejected": OTHER}, {"prompt_split"}, {"score"}),
    "prompt-completion": ({"prompt": [{"role": "system", "content": "s"}, USER], "completion": [HELPER], "score": 3,
                           "tools": [TOOL]},
                          {"messages": [{"role": "system", "content": "s"}, USER, HELPER], "tools": [TOOL]}, set(),
                          {"score"}),
    "unpaired": ({"prompt": "a", "completion": "b", "label": True}, {"messages": [USER, HELPER]}, {"text_prompt"},
                 set()),
    "table": ({"question": "a", "Answer": "b", "n": 1}, {"messages": [USER, HELPER]}, {"text_prompt"}, {"n"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_of_each_kind_becomes_a_row_and_the_report_says_how(tmp_path, kind):
    record, row, changed, dropped = CASES[kind]
    assert detect_kind(record, {}) == kind
    rows, report = imported(tmp_path, json.dumps(record))
    assert (rows, report.kind, report.written) == ([row], kind, 1)
    assert (set(report.changed), set(report.dropped)) == (changed, dropped)


def test_texts_become_the_messages_of_a_pair(tmp_path):
    rows, report = imported(tmp_path, json.dumps({"prompt": "a", "chosen": "b", "rejected": "c", "tools": " "}))
    assert rows == [{"prompt": [USER], "chosen": HELPER, "rejected": OTHER}]
    assert codes(report.changed) == {"text_prompt": 3, "blank_tools": 1}


@pytest.mark.parametrize(("record", "code", "place"), [
    ({"messages": [USER]}, "answer_missing", "record 2: messages[0].role"),
    ({"messages": [USER, HELPER | {"content": "x\0"}]}, "nul_character", "record 2: messages[1].content"),
    ({"messages": 7}, "messages_missing", "record 2: messages"), ({}, "messages_missing", "record 2: messages"),
])
def test_a_record_that_gives_no_row_is_named_and_nothing_is_written(tmp_path, record, code, place):
    good = {"messages": [USER, HELPER]}
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, "\n".join(map(json.dumps, (good, record, good))))
    assert [(problem.path, problem.code) for problem in refused.value.problems] == [(place, code)]
    assert [path.name for path in tmp_path.iterdir()] == ["records.jsonl"]


def test_refused_records_are_left_out_only_when_that_is_asked_for(tmp_path):
    text = json.dumps({"messages": [USER, HELPER]}) + "\n{broken\n[1]\n"
    rows, report = imported(tmp_path, text, kind="openai-chat", skip_refused=True)
    assert (len(rows), report.records, report.refused) == (1, 3, 2)
    assert [problem.code for problem in report.problems] == ["not_json", "not_an_object"]
    with pytest.raises(ImportRefused, match="No record"):
        imported(tmp_path, "{broken", kind="openai-chat", skip_refused=True)


@pytest.mark.parametrize(("record", "kind", "code"), [
    ({"preferred_output": []}, "openai-dpo", "prompt_missing"),
    ({"input": {"messages": [USER]}, "preferred_output": [HELPER, HELPER]}, "openai-dpo", "several_messages"),
    ({"messages": [USER]}, "openai-rft", "answer_missing"), ({"conversations": 1}, "sharegpt", "messages_missing"),
    ({"conversations": [{"from": "moderator", "value": "a"}]}, "sharegpt", "role_unknown"),
    ({"conversations": [{"from": "human"}]}, "sharegpt", "content_missing"),
    ({"conversations": [{"from": "function_call", "value": "f()"}]}, "sharegpt", "not_json"),
    ({"conversations": [{"from": "function_call", "value": "[]"}]}, "sharegpt", "tool_call_invalid"),
    ({"instruction": 7, "output": "b"}, "alpaca", "content_invalid"),
    ({"instruction": "a", "output": "b", "history": "h"}, "alpaca", "history_invalid"),
    ({"chosen": [USER, HELPER, HELPER], "rejected": [OTHER]}, "preference", "several_messages"),
    ({"prompt": "a", "chosen": "", "rejected": "b"}, "preference", "pair_incomplete"),
    ({"prompt": "a", "completion": "b", "label": 1}, "unpaired", "label_invalid"),
    ({"completion": "b", "label": True}, "unpaired", "prompt_missing"),
    ({"prompt": ["a"], "completion": "b"}, "prompt-completion", "message_not_an_object"),
    ({"x": "a"}, "table", "no_mapping"),
])
def test_what_a_kind_cannot_read_is_refused_in_its_words(tmp_path, record, kind, code):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps(record), kind=kind)
    assert refused.value.problems[0].code == code


def test_records_of_no_known_kind_are_told_how_to_name_their_columns(tmp_path):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, '{"x": 1}')
    assert "--map" in refused.value.hint


# TRL's records




@pytest.mark.parametrize(("record", "kind", "row"), [
    ({"messages": [USER, HELPER]}, "openai-chat", CHAT_ROW),
    ({"prompt": "a", "completion": "b"}, "prompt-completion", CHAT_ROW),
    ({"prompt": [USER], "completion": [HELPER]}, "prompt-completion", CHAT_ROW),
    ({"prompt": [USER], "completion": HELPER}, "prompt-completion", CHAT_ROW),
    ({"prompt": [USER], "answer": "b"}, "prompt-completion", CHAT_ROW),
    ({"prompt": "a", "chosen": "b", "rejected": "c"}, "preference", PAIR_ROW),
    ({"prompt": [USER], "chosen": [HELPER], "rejected": [OTHER]}, "preference", PAIR_ROW),
    ({"chosen": [USER, HELPER], "rejected": [USER, OTHER]}, "preference", PAIR_ROW),
    ({"prompt": "a", "chosen": [USER, HELPER], "rejected": [USER, OTHER]}, "preference", PAIR_ROW),
    ({"prompt": [USER], "completion": [HELPER], "label": True}, "unpaired", CHAT_ROW)])
def test_each_kind_of_trl_record_becomes_the_same_row_plain_or_of_messages(tmp_path, record, kind, row):
    rows, report = imported(tmp_path, json.dumps(record))
    assert (report.kind, rows, report.dropped) == (kind, [row], {})


def test_of_unpaired_records_the_wanted_become_rows_and_the_others_are_counted(tmp_path):
    records = [{"prompt": [USER], "completion": [HELPER], "label": label} for label in (True, False, False, True)]
    rows, report = imported(tmp_path, "\n".join(map(json.dumps, records)))
    assert rows == [CHAT_ROW] * 2
    assert (report.records, report.written, report.refused) == (4, 2, 0)
    assert codes(report.changed) == {"labelled_false": 2} and report.changed["labelled_false"].places == [2, 3]
    with pytest.raises(ImportRefused, match="No record") as refused:
        imported(tmp_path, json.dumps(records[1]))
    assert refused.value.data["report"]["changed"][0]["code"] == "labelled_false"


def test_a_completion_of_several_answers_is_kept_and_said_to_be_trained_in_part(tmp_path):
    rows, report = imported(tmp_path, json.dumps({"prompt": [USER], "completion": [HELPER, USER, OTHER]}))
    assert rows == [{"messages": [USER, HELPER, USER, OTHER]}]
    assert codes(report.changed) == {"completion_turns": 1}


@pytest.mark.parametrize("record", [{"prompt": "a", "solution": "b"}, {"prompt": [USER], "solution": "b"}])
def test_a_prompt_alone_gives_a_row_where_its_answer_is_named(tmp_path, record):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps(record))
    (problem,) = refused.value.problems
    assert problem.code == "answer_missing" and "solution" in problem.message and "--map assistant" in problem.hint
    rows, _ = imported(tmp_path, json.dumps(record), mapping={"assistant": "solution"})
    assert rows == [CHAT_ROW]


@pytest.mark.parametrize(("record", "mapping", "row"), [
    ({"q": [USER], "good": [HELPER]}, {"user": "q", "assistant": "good"}, CHAT_ROW),
    ({"q": "a", "good": [HELPER]}, {"user": "q", "assistant": "good"}, CHAT_ROW),
    ({"q": [USER], "good": [HELPER], "bad": [OTHER]}, {"prompt": "q", "chosen": "good", "rejected": "bad"}, PAIR_ROW)])
def test_messages_in_columns_of_other_names_stay_messages(tmp_path, record, mapping, row):
    rows, report = imported(tmp_path, json.dumps(record), mapping=mapping)
    assert rows == [row] and not report.dropped


def test_messages_never_become_the_json_of_a_text(tmp_path):
    for record in ({"question": [USER], "answer": "b"}, {"question": "a", "answer": [HELPER]}):
        with pytest.raises(ImportRefused) as refused:
            imported(tmp_path, json.dumps(record))
        assert refused.value.problems[0].code == "messages_in_cell"


@pytest.mark.parametrize(("record", "reason"), [
    ({"chosen": "a b", "rejected": "a c"}, "where a prompt in them ends"), ({"text": "a b"}, "tells an answer in it")])
def test_texts_in_which_a_prompt_is_hidden_are_refused(tmp_path, record, reason):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps(record))
    assert reason in refused.value.detail + "".join(problem.message for problem in refused.value.problems)
