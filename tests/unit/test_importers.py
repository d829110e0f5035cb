"""Data of other tools as rows: what becomes of each kind of record, and the report of what changed."""

import csv
import json

import pytest

from datasets.errors import ImportRefused, SourceUnreadable
from datasets.importers.convert import KINDS, detect_kind, import_file
from datasets.importers.sources import read_records
from datasets.management.commands.datasets import Command
from datasets.pairs import read_pair
from datasets.rows import read_row

USER, HELPER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
OTHER = {"role": "assistant", "content": "c"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def imported(tmp_path, text, name="records.jsonl", **options):
    """The rows of a file, and the report."""
    source = tmp_path / name
    source.write_text(text)
    return rows_of(source, tmp_path, **options)


def rows_of(source, tmp_path, **options):
    out = tmp_path / "rows.jsonl"
    report = import_file(source, out, **options)
    read = read_pair if report.format.startswith("preference") else read_row
    return [read(line.encode()) for line in out.read_text().splitlines()], report


def codes(noted):
    return {code: seen.count for code, seen in noted.items()}


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


CHAT_ROW, PAIR_ROW = {"messages": [USER, HELPER]}, {"prompt": [USER], "chosen": HELPER, "rejected": OTHER}


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


# What would alter training if it were left out


@pytest.mark.parametrize("mark", [{"weight": 0}, {"train": False}, {"training": False}, {"loss": False}])
@pytest.mark.parametrize("kind", ["openai-chat", "sharegpt", "prompt-completion"])
def test_answers_that_are_not_to_be_trained_are_never_trained_in_silence(tmp_path, kind, mark):
    def record(first, last):
        said = [USER, HELPER | first, USER, OTHER | last]
        return json.dumps({"openai-chat": {"messages": said}, "prompt-completion": {"prompt": said[:-1],
                                                                                    "completion": said[-1:]},
                           "sharegpt": {"conversations": said}}[kind])
    rows, report = imported(tmp_path, record(mark, dict.fromkeys(mark, 1) if "weight" in mark else {}))
    assert rows == [{"messages": [USER, HELPER, USER, OTHER]}]
    assert report.kind == kind and report.changed["untrained_messages"].count == 1
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, record({}, mark))
    (problem,) = refused.value.problems
    assert problem.code == "answer_untrained" and next(iter(mark)) in problem.path


def test_marks_that_say_nothing_are_refused_or_kept_and_a_pair_heeds_none(tmp_path):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps({"messages": [USER, HELPER | {"weight": 0.5}]}))
    assert refused.value.problems[0].code == "mark_unclear"
    rows, report = imported(tmp_path, json.dumps({"messages": [USER, HELPER | {"loss": 0.5, "train": None}]}))
    assert rows == [{"messages": [USER, HELPER | {"loss": 0.5}]}] and not report.dropped
    _, report = imported(tmp_path, json.dumps({"prompt": [USER, HELPER | {"weight": 0}, USER], "chosen": [HELPER],
                                               "rejected": [OTHER]}))
    assert not report.changed and set(report.dropped) == {"messages.weight"}


SHOWN = [{"type": "image", "path": "a.png"}, {"type": "text", "text": "\nwhat?"}]


@pytest.mark.parametrize("record", [
    {"conversations": [{"from": "human", "value": "<image>\nwhat?"}, {"from": "gpt", "value": "b"}],
     "images": ["a.png"]},
    {"conversations": [{"from": "human", "value": "<image>\nwhat?"}, {"from": "gpt", "value": "b"}], "image": "a.png"},
    {"messages": [{"role": "user", "content": [{"type": "image"}, SHOWN[1]]}, HELPER],
     "images": [{"path": "a.png", "bytes": None}]},
    {"prompt": [{"role": "user", "content": "<image>\nwhat?"}], "completion": [HELPER], "images": ["a.png"]},
    {"instruction": "<image>\nwhat?", "output": "b", "images": ["a.png"]}])
def test_images_beside_the_texts_come_to_stand_where_the_texts_place_them(tmp_path, record):
    rows, report = imported(tmp_path, json.dumps(record))
    assert rows == [{"messages": [{"role": "user", "content": SHOWN}, HELPER]}]
    assert report.changed["images_placed"].count == 1 and not report.dropped


@pytest.mark.parametrize(("more", "code"), [
    ({"images": ["a.png", "b.png"]}, "images_misplaced"), ({"images": [{"path": None, "bytes": "x"}]},
                                                           "image_embedded"),
    ({"images": ["../a.png"]}, "image_path_invalid"), ({"videos": ["a.mp4"]}, "media_unknown")])
def test_images_and_other_media_that_find_no_place_are_refused(tmp_path, more, code):
    record = {"conversations": [{"from": "human", "value": "<image> ?"}, {"from": "gpt", "value": "b"}]}
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps(record | more))
    assert refused.value.problems[0].code == code


def test_media_are_left_out_of_a_table_or_a_pair_only_where_the_columns_are_named(tmp_path):
    for record in ({"question": "a", "answer": "b", "image": "a.png"},
                   {"prompt": "a", "chosen": "b", "rejected": "c", "images": ["a.png"]}):
        with pytest.raises(ImportRefused) as refused:
            imported(tmp_path, json.dumps(record))
        assert refused.value.problems[0].code == "media_left_out"
    rows, report = imported(tmp_path, json.dumps({"question": "a", "answer": "b", "image": "a.png"}),
                            mapping={"user": "question", "assistant": "answer"})
    assert rows == [CHAT_ROW] and set(report.dropped) == {"image"}


CALLED_TWICE = [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "parameters": {"y": 2}}]


def shared(*turns):
    return {"conversations": [{"from": from_, "value": value if isinstance(value, str) else json.dumps(value)}
                              for from_, value in (("human", "a"), *turns, ("gpt", "b"))]}


@pytest.mark.parametrize(("turns", "changed"), [
    ([("function_call", CALLED_TWICE), ("observation", "1"), ("observation", "2")], set()),
    ([("function_call", CALLED_TWICE), ("observation", [1, "2"])], {"results_split"}),
    ([("function_call", CALLED_TWICE[0]), ("function_call", CALLED_TWICE[1]), ("observation", "1"),
      ("observation", "2")], {"parallel_calls"})])
def test_calls_made_at_once_are_calls_of_one_message_each_with_its_result(tmp_path, turns, changed):
    rows, report = imported(tmp_path, json.dumps(shared(*turns)))
    calls = [{"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
             for id_, name, arguments in (("call_1", "f", {"x": 1}), ("call_1_1", "g", {"y": 2}))]
    assert rows == [{"messages": [USER, {"role": "assistant", "content": "", "tool_calls": calls},
                                  {"role": "tool", "tool_call_id": "call_1", "content": "1"},
                                  {"role": "tool", "tool_call_id": "call_1_1", "content": "2"}, HELPER]}]
    assert set(report.changed) == changed | {"roles", "tool_ids"}


@pytest.mark.parametrize("results", [[("observation", [1, 2, 3])], [("observation", "{}")], [("observation", "1")] * 3])
def test_results_of_another_number_than_the_calls_are_refused(tmp_path, results):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps(shared(("function_call", CALLED_TWICE), *results)))
    assert refused.value.problems[0].code == "results_differ"


def test_what_a_turn_holds_beside_its_text_is_reported(tmp_path):
    _, report = imported(tmp_path, json.dumps({"conversations": [{"from": "human", "value": "a", "rating": 3},
                                                                 {"from": "gpt", "value": "b"}]}))
    assert set(report.dropped) == {"conversations.rating"}


# Sources


ALPACA = [{"instruction": "a", "output": "b"}, {"instruction": "é\n", "output": "c"}]


@pytest.mark.parametrize("text", [
    json.dumps(ALPACA), json.dumps(ALPACA, indent=2), "".join(json.dumps(row, indent=1) + "\n" for row in ALPACA),
    "\ufeff" + "\r\n".join(map(json.dumps, ALPACA)), json.dumps(ALPACA, ensure_ascii=False) + "\n"])
@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_json_is_read_however_it_is_laid_out(tmp_path, monkeypatch, text, chunk):
    monkeypatch.setattr("datasets.importers.sources.CHUNK", chunk)
    rows, _ = imported(tmp_path, text, "records.json")
    assert [row["messages"][0]["content"] for row in rows] == ["a", "é\n"]


@pytest.mark.parametrize(("text", "reason"), [
    ('[{"a": 1}, {"b" 2}]', "no JSON"), ("[", "cut short"), ("", "no record"), ("[]", "no record"),
    (json.dumps(ALPACA)[:-1], "cut short"), (json.dumps(ALPACA)[:-1] + ", ", "cut short"),
    (json.dumps(ALPACA) + "\n" + json.dumps(ALPACA), "goes on after its array"),
    (json.dumps(ALPACA) + " x", "goes on after its array"), ("{}]", "no JSON")])
def test_json_that_breaks_off_is_refused(tmp_path, text, reason):
    with pytest.raises(SourceUnreadable, match=reason):
        imported(tmp_path, text, "records.json")


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t")])
def test_a_table_is_read_with_its_delimiter_quotes_and_line_breaks(tmp_path, name, delimiter):
    with (tmp_path / name).open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows([["title", "body", "queue"], ["a", 'b "x"\nc', "1"]])
    rows, report = rows_of(tmp_path / name, tmp_path, keep=["title"],
                           mapping={"user": "{title}: {body}", "assistant": "queue", "system": "queue"})
    assert [message["content"] for message in rows[0]["messages"]] == ["1", 'a: b "x"\nc', "1"]
    assert rows[0]["title"] == "a" and not report.dropped


def test_a_table_of_pairs_and_of_messages(tmp_path):
    text = json.dumps({"q": "a", "good": "b", "bad": "c", "t": json.dumps([TOOL])})
    rows, report = imported(tmp_path, text, mapping={"prompt": "q", "chosen": "good", "rejected": "bad", "tools": "t"})
    assert rows == [{"prompt": [USER], "chosen": HELPER, "rejected": OTHER, "tools": [TOOL]}]
    assert report.format == "preference-jsonl-v1"
    rows, _ = imported(tmp_path, json.dumps({"m": json.dumps([USER, HELPER])}), mapping={"messages": "m"})
    assert rows == [{"messages": [USER, HELPER]}]
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, text, mapping={"prompt": "q", "chosen": "good"})
    assert "rejected" in refused.value.problems[0].message
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, text, mapping={"user": "question", "assistant": "good"})
    assert refused.value.problems[0].code == "column_missing"


def test_a_record_with_other_columns_than_its_header_is_refused(tmp_path):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, "user,assistant\na,b,c\na\na,b\n", "a.csv")
    assert [problem.path for problem in refused.value.problems] == ["record 1", "record 2"]
    with pytest.raises(SourceUnreadable):
        imported(tmp_path, 'user,assistant\n"a', "a.csv")


@pytest.mark.requirement("R321")
def test_fields_that_a_table_of_structs_fills_in_are_taken_out_again(tmp_path):
    import pyarrow
    from pyarrow import ipc, parquet

    calls = [{"id": "c", "function": {"name": "f", "arguments": {"city": "Lyon"}}},
             {"id": "c", "function": {"name": "g", "arguments": {"day": 3}}}]
    table = pyarrow.Table.from_pylist([
        {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]} for call in calls])
    parquet.write_table(table, tmp_path / "a.parquet")
    with ipc.new_stream(tmp_path / "a.arrow", table.schema) as stream:
        stream.write_table(table)
    with ipc.new_file(tmp_path / "file.arrow", table.schema) as file:
        file.write_table(table)
    for name in ("a.parquet", "a.arrow", "file.arrow"):
        rows, report = rows_of(tmp_path / name, tmp_path)
        assert [row["messages"][1]["tool_calls"][0]["function"]["arguments"] for row in rows] == [
            {"city": "Lyon"}, {"day": 3}]
        assert codes(report.changed) == {"null_fields": 2}
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "a.arrow").write_bytes(b"no arrow")
    for name in ("a.parquet", "a.arrow"):
        with pytest.raises(SourceUnreadable):
            rows_of(tmp_path / name, tmp_path)


def test_a_dataset_folder_is_read_split_by_split(tmp_path):
    data = tmp_path / "set" / "data"
    data.mkdir(parents=True)
    for name, number in (("train-00000-of-00002", 1), ("train-00001-of-00002", 2), ("test-00000-of-00001", 3)):
        (data / f"{name}.jsonl").write_text(json.dumps({"prompt": str(number), "completion": "b"}))
    (tmp_path / "set" / "dataset_infos.json").write_text("{}")
    rows, _ = rows_of(tmp_path / "set", tmp_path, split="train")
    assert [row["messages"][0]["content"] for row in rows] == ["1", "2"]
    assert [found.place for found in read_records(tmp_path / "set", "train")] == [1, 2]
    for options in ({}, {"split": "dev"}):
        with pytest.raises(SourceUnreadable) as refused:
            rows_of(tmp_path / "set", tmp_path, **options)
        assert "test, train" in refused.value.detail
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceUnreadable, match="no data file"):
        rows_of(tmp_path / "empty", tmp_path)


# The command


def test_a_table_that_names_a_column_twice_is_refused(tmp_path):
    with pytest.raises(SourceUnreadable, match="'assistant' twice"):
        imported(tmp_path, "user,assistant,assistant\na,b,c\n", "a.csv")


@pytest.mark.parametrize(("text", "code"), [
    ('[{"user": "\\ud800", "assistant": "b"}]', "lone_surrogate"), ('[{"user": NaN}]', "not_a_number"),
    ('{"user": "a", "user": "b"}\n', "duplicate_key"), ("5", "not_an_object")])
def test_records_of_which_none_can_be_read_say_why(tmp_path, text, code):
    with pytest.raises(ImportRefused, match="None of the first 1 records") as refused:
        imported(tmp_path, text, "records.jsonl")
    (problem,) = refused.value.problems
    assert (problem.path.partition(":")[0], problem.code) == ("record 1", code)


def test_the_command_writes_the_rows_and_reports(tmp_path, capsys):
    source, out = tmp_path / "a.csv", tmp_path / "rows.jsonl"
    source.write_text("q,a\nwhere,there\n")
    argv = ["import", str(source), "--out", str(out), "--map", "user=q", "--map", "assistant=a"]
    assert Command().run([*argv, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["written"], told["refused"], told["out"]) == ("table", 1, 0, str(out))
    assert Command().run(argv) == 2 and "--force" in capsys.readouterr().err
    assert Command().run([*argv, "--force"]) == 0 and "Texts became messages" in capsys.readouterr().out
    assert Command().run(["validate", str(out)]) == 0


@pytest.mark.parametrize(("stated", "status"), [("user", 2), ("user=", 2), ("queue=a", 2), ("user=x", 3)])
def test_a_mapping_that_says_nothing_is_refused(tmp_path, capsys, stated, status):
    source = tmp_path / "a.csv"
    source.write_text("q,a\nwhere,there\n")
    assert Command().run(["import", str(source), "--out", str(tmp_path / "o"), "--map", stated,
                          "--map", "assistant=a"]) == status
    assert Command().run(["import", str(tmp_path / "none"), "--out", str(tmp_path / "o")]) == 2
