"""The files and folders that records are read from, and the command that reads them."""

import csv
import json

import pytest

from datasets.errors import ImportRefused, SourceUnreadable
from datasets.importers.sources import read_records
from datasets.management.commands.datasets import Command
from tests.importing import HELPER, OTHER, TOOL, USER, codes, imported, rows_of

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


def test_the_command_names_the_first_records_that_give_no_row_each_with_the_reason(tmp_path, capsys):
    source, out = tmp_path / "a.csv", tmp_path / "rows.jsonl"
    source.write_text("q,a\nwhere,there\n" + "where,\n" * 7)
    argv = ["import", str(source), "--out", str(out), "--map", "user=q", "--map", "assistant=a", "--skip-refused"]
    assert Command().run(argv) == 0
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if "Refused" in line]
    assert told[:2] == ["Refused 7", "Refused record 2: messages[1].content: The final assistant message is empty."]
    assert (len(told), told[-1]) == (7, "Refused and 2 more")


@pytest.mark.parametrize(("stated", "status"), [("user", 2), ("user=", 2), ("queue=a", 2), ("user=x", 3)])
def test_a_mapping_that_says_nothing_is_refused(tmp_path, capsys, stated, status):
    source = tmp_path / "a.csv"
    source.write_text("q,a\nwhere,there\n")
    assert Command().run(["import", str(source), "--out", str(tmp_path / "o"), "--map", stated,
                          "--map", "assistant=a"]) == status
    assert Command().run(["import", str(tmp_path / "none"), "--out", str(tmp_path / "o")]) == 2
