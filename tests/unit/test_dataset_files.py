"""Looking at files without a box: no test here may reach a database."""

import hashlib
import json

import pytest

from datasets import ingest
from datasets.errors import DatasetInvalid
from datasets.ingest import examine_file
from datasets.lines import MAX_LINE_BYTES, LineBatches, read_lines
from datasets.management.commands.datasets import Command
from datasets.stretches import Region, Stretch, examine_region


def rows(number):
    return "".join(json.dumps({"messages": [{"role": "user", "content": f"question {index}"},
                                            {"role": "assistant", "content": ["yes", "no"][index % 2]}]}) + "\n"
                   for index in range(number))


def command(*argv):
    return Command().run([str(part) for part in argv])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_the_bytes_arrive(size):
    body = b"\xef\xbb\xbfa\r\n\n  \r\nb\rc\n\xef\xbb\xbfd\n\ne"
    lines = list(read_lines(body[index:index + size] for index in range(0, len(body), size)))
    assert [(line.number, line.data) for line in lines] == [
        (1, b"a"), (2, b""), (3, b"  "), (4, b"b\rc"), (5, b"\xef\xbb\xbfd"), (6, b""), (7, b"e")]
    assert [line.is_blank for line in lines] == [False, True, True, False, False, True, False]


def test_no_more_than_one_line_is_held():
    batches = LineBatches()
    for _ in range(300):
        assert batches.feed(b"x" * (1 << 20)) is None
        assert sum(map(len, batches._held)) <= MAX_LINE_BYTES
    batch = batches.feed(b"\n")
    assert (batch.too_long, [len(line) for line in batch.lines]) == ({0}, [64])
    assert batches.feed(b"y\n").lines == [b"y"]


def test_a_line_of_the_greatest_length_is_whole():
    body = b"x" * MAX_LINE_BYTES
    assert [line.is_too_long for line in read_lines([body, b"\n", body, b"x\n"])] == [False, True]


def test_a_file_is_checked_without_a_box(tmp_path, capsys):
    (tmp_path / "good.jsonl").write_text(rows(4))
    assert command("validate", tmp_path / "good.jsonl", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["valid"], document["exampleCount"]) == (True, 4)
    assert command("validate", tmp_path / "good.jsonl") == 0
    (tmp_path / "bad.jsonl").write_text(rows(2) + "{}\n")
    assert command("validate", tmp_path / "bad.jsonl") == 3
    assert "line 3: messages" in capsys.readouterr().err


def test_a_file_is_split_without_a_box(tmp_path, capsys):
    (tmp_path / "all.jsonl").write_text(rows(50))
    out = ["--out-train", tmp_path / "train.jsonl", "--out-eval", tmp_path / "eval.jsonl"]
    assert command("split", tmp_path / "all.jsonl", "--held-out", "0.2", *out, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["train"]["rows"], document["eval"]["rows"]) == (40, 10)
    assert document["eval"]["labels"] == {"yes": 5, "no": 5}
    assert command("split", tmp_path / "all.jsonl", "--held-out", "0.2", *out) == 2
    assert command("split", tmp_path / "all.jsonl", "--held-out", "0.2", *out, "--force") == 0
    assert command("split", tmp_path / "all.jsonl", "--held-out", "0", *out, "--force") == 2
    assert command("split", tmp_path / "all.jsonl", "--held-out", "50", *out, "--force") == 3
    assert command("split", tmp_path / "none.jsonl", "--held-out", "1", *out, "--force") == 2
    assert command("split", tmp_path / "all.jsonl", "--held-out", "1", "--out-train", tmp_path / "all.jsonl",
                   "--out-eval", tmp_path / "e") == 2


def test_a_great_many_blank_lines_are_counted_at_once(tmp_path, monkeypatch):
    looked, look = [], Stretch._look
    monkeypatch.setattr(Stretch, "_look", lambda self, line: looked.append(line) or look(self, line))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(rows(1).encode() + b" \r\n\n\t\n" * 200_000)
    found = examine_region(Region(str(path), 0, path.stat().st_size))
    assert (found.num_blank_lines, found.num_carriage_returns, found.num_rows) == (600_000, 200_000, 1)
    assert len(looked) < 200_000
    assert examine_file(path).content_hash == hashlib.sha256(rows(1).strip().encode()).hexdigest()


def test_a_file_of_bad_lines_is_not_looked_at_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "STRETCH_BYTES", 64)
    monkeypatch.setattr(ingest, "CHUNK", 64)
    monkeypatch.setattr(ingest, "MOST_BAD_LINES", 100)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x\n" * 10_000)
    with pytest.raises(DatasetInvalid, match=r"of the first \d+ lines are not a chat row") as refused:
        examine_file(path)
    assert 100 <= refused.value.data["badLines"] < 10_000
