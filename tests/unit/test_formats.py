"""Formats beside chat rows: told by their bytes, checked whole, refused by file and row."""

import hashlib
import io
import json
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from datasets import token_rows
from datasets.describing import MadeWith, describe_files, named_files, template_sha256, write_description
from datasets.errors import DatasetInvalid
from datasets.formats.chat import ChatExaminer
from datasets.formats.eval_items import read_eval_items
from datasets.formats.known import known_formats
from datasets.formats.of_lines import format_of
from datasets.formats.prepared import read_prepared
from datasets.image_bytes import MAX_BYTES, ImageFacts, ImageRefused, read_image
from datasets.ingest import examine_file
from datasets.lines import Batch
from datasets.management.commands.datasets import Command
from datasets.splitting import split_file
from datasets.token_rows import measure_files
from optimize_site.kernel.archives import ArchiveRefused
from optimize_site.kernel.errors import InvalidInput
from tests.archives import (
    DESCRIPTOR,
    DIGEST,
    GOOD_TOKENS,
    archive,
    items,
    jpeg,
    kept,
    picture,
    png,
    png_chunk,
    prepared,
    webp,
)
from tests.archives import token_rows as parquet

ASKED, BETTER, WORSE = ({"role": role, "content": text} for role, text in
                        (("user", "a"), ("assistant", "b"), ("assistant", "c")))
PAIR = {"prompt": [ASKED], "chosen": BETTER, "rejected": WORSE}
ROW = {"messages": [ASKED, BETTER]}


def lines(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def codes(error):
    return [(problem.path, problem.code) for problem in error.value.problems]


# Preference pairs


@pytest.mark.requirement("R305")
def test_the_form_is_read_from_the_first_row():
    assert format_of(lines(PAIR)) == "preference-jsonl-v1"
    assert {format_of(lines(row)) for row in (ROW, ROW | PAIR, {"prompt": "a"}, [1])} == {"chat-jsonl-v1"}
    assert format_of(b"{") == "chat-jsonl-v1"
    assert known_formats() == ["chat-jsonl-v1", "eval-items-v1", "preference-jsonl-v1", "prepared-tokens-v1"]


@pytest.mark.requirement("R305", "R317")
def test_pairs_are_counted_with_what_they_offer_and_repeat(tmp_path):
    swapped = PAIR | {"chosen": WORSE, "rejected": BETTER}
    other = PAIR | {"rejected": {"role": "assistant", "content": "three"}, "tools": [
        {"type": "function", "function": {"name": "f"}}]}
    found = examine_file(kept(tmp_path, lines(PAIR, PAIR, swapped, other)))
    facts = found.facts()
    assert (found.stretch.format, found.num_examples, facts.num_tool_rows) == ("preference-jsonl-v1", 4, 1)
    assert facts.statistics["rejectedCharacters"]["max"] == 5
    noticed = {finding["code"]: finding["lines"] for finding in facts.findings}
    assert noticed["repeated_rows"] == [2] and noticed["conflicting_answers"] == [3]


@pytest.mark.requirement("R305")
@pytest.mark.parametrize(("first", "second"), [(PAIR, ROW), (ROW, PAIR)])
def test_a_dataset_holds_chat_rows_or_pairs_and_the_line_of_the_other_is_named(tmp_path, first, second):
    with pytest.raises(DatasetInvalid) as refused:
        examine_file(kept(tmp_path, lines(first, first, second)))
    assert {path.split(":")[0] for path, _ in codes(refused)} == {"line 3"}
    assert "not both" in refused.value.problems[0].hint


def test_pairs_are_split_with_every_pair_of_a_prompt_on_one_side(tmp_path):
    pairs = [{"prompt": [{"role": "user", "content": f"q{number // 2}"}], "chosen": BETTER,
              "rejected": {"role": "assistant", "content": str(number)}} for number in range(20)]
    train, held_out = split_file(kept(tmp_path, lines(*pairs)), tmp_path / "train", tmp_path / "eval", share=0.2)
    assert (train.num_rows, held_out.num_rows) == (16, 4)
    asked = [{json.loads(line)["prompt"][0]["content"] for line in (tmp_path / side).read_text().splitlines()}
             for side in ("train", "eval")]
    assert not asked[0] & asked[1]


# Prepared token rows


@pytest.mark.requirement("R327")
def test_prepared_rows_give_their_tokenizer_their_template_and_their_counts(tmp_path):
    with read_prepared(kept(tmp_path, prepared(longestRow=3, rows=2))) as found:
        assert (found.format, found.num_examples, found.row_paths) == ("prepared-tokens-v1", 2, {"rows.parquet": 2})
        assert [item.path for item in found.objects] == ["prepared.json", "rows.parquet"]
        assert found.facts.details == DESCRIPTOR | {
            "rows": 2, "longestRow": 3, "trainedTokens": 3, "totalTokens": 5,
            "files": [{"path": "rows.parquet", "rows": 2, "tokens": 5}], "lengths": [[2, 1], [3, 1]],
            "longestRows": [{"place": "row 1 of rows.parquet", "tokens": 3},
                            {"place": "row 2 of rows.parquet", "tokens": 2}]}


def bad_rows(tmp_path, *files):
    reader = token_rows.Reader()
    for number, data in enumerate(files):
        reader.read(number, str(kept(tmp_path, data, f"{number}.parquet")))
    return [(problem.file, problem.row, problem.code) for problem in reader.bad]


def test_every_bad_token_row_is_named(tmp_path):
    uneven = [([], []), ([1, 2], [0]), (None, None), ([1, 2], [0, 1]), ([1], None)]
    odd = [([1, 2], [0, 1]), ([1], [1]), ([1, 2], [0, 0]), ([-1, 2], [0, 1]), ([1, 2], [0, 2]), ([1, None], [0, 1]),
           ([1 << 31, 2], [0, 1]), ([1, 2], [0, None])]
    assert bad_rows(tmp_path, parquet(uneven), parquet(odd)) == [
        (0, 1, "no_tokens"), (0, 2, "mask_length"), (0, 3, "no_tokens"), (0, 5, "mask_length"),
        (1, 2, "first_token_marked"), (1, 3, "nothing_marked"), (1, 4, "token_invalid"), (1, 5, "mark_invalid"),
        (1, 6, "token_invalid"), (1, 7, "token_invalid"), (1, 8, "mark_invalid")]


def test_marks_may_be_truths_and_lists_of_any_width(tmp_path):
    rows = [([1, 2], [False, True]), ([3, 4, 5], [False, False, True])] * 3000
    reader = token_rows.Reader()
    assert reader.read(0, str(kept(tmp_path, parquet(rows)))) == token_rows.TokenFile(
        6000, 15000, 6000, [[2, 3000], [3, 3000]], [[3, row] for row in range(2, 42, 2)])
    assert not reader.bad


def test_a_row_of_more_tokens_than_a_model_could_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(token_rows, "MAX_ROW_TOKENS", 2)
    assert bad_rows(tmp_path, parquet(GOOD_TOKENS)) == [(0, 1, "row_too_long")]


def test_a_file_without_the_columns_is_refused(tmp_path):
    import pyarrow
    from pyarrow import parquet as writer

    for table in ({"input_ids": [[1]]}, {"input_ids": [[1]], "loss_mask": [1]},
                  {"input_ids": ["a"], "loss_mask": [[1]]}):
        writer.write_table(pyarrow.table(table), tmp_path / "x.parquet")
        assert bad_rows(tmp_path, (tmp_path / "x.parquet").read_bytes())[0][2] in {"column_missing", "column_type"}
    assert bad_rows(tmp_path, b"PAR1 and no more", parquet([])) == [
        (0, 0, "parquet_unreadable"), (1, 0, "column_type")]


def test_a_reader_that_dies_refuses_the_files_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(token_rows, "sys", type("Broken", (), {"executable": "/bin/false"}))
    assert measure_files([tmp_path / "a.parquet"]).bad[0].code == "parquet_unreadable"


def test_prepared_rows_are_refused_by_file_and_row(tmp_path):
    with pytest.raises(DatasetInvalid) as refused, read_prepared(kept(tmp_path, prepared([([1, 2], [0, 0])]))):
        pass
    assert codes(refused) == [("row 1 of rows.parquet", "nothing_marked")]


@pytest.mark.parametrize(("changes", "code"), [
    ({"tokenizer": None}, "tokenizer_missing"), ({"tokenizer": {"repository": "a"}}, "tokenizer_missing"),
    ({"chatTemplateSha256": "abc"}, "template_missing"), ({"longestRow": 2}, "described_otherwise"),
    ({"rows": 3}, "described_otherwise"), ({"trainedTokens": 1}, "described_otherwise"),
])
def test_a_description_that_does_not_fit_is_refused(tmp_path, monkeypatch, changes, code):
    files = [token_rows.TokenFile(2, 5, 3, [[2, 1], [3, 1]], [[3, 1], [2, 2]])]
    monkeypatch.setattr("datasets.formats.prepared.measure_files", lambda paths: token_rows.TokenFiles(files, [], 0))
    with pytest.raises(DatasetInvalid) as refused, read_prepared(kept(tmp_path, prepared(**changes))):
        pass
    assert codes(refused)[0][1] == code and codes(refused)[0][0].startswith("prepared.json")


@pytest.mark.requirement("R326")
def test_prepared_rows_are_described_under_the_template_that_is_named(tmp_path, capsys):
    template = kept(tmp_path, b"{{ messages }}\n", "other.jinja")
    rows, out = kept(tmp_path, parquet(GOOD_TOKENS), "rows.parquet"), tmp_path / "made.zip"
    argv = ["describe-prepared", str(rows), "--model", "acme/tiny", "--revision", "rev-1",
            "--chat-template", str(template), "--out", str(out), "-o", "json"]
    assert Command().run(argv) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chatTemplateSha256"] == hashlib.sha256(b"{{ messages }}\n").hexdigest() == template_sha256(template)
    assert {path.name for path in tmp_path.iterdir()} == {"other.jinja", "rows.parquet", "made.zip"}
    assert Command().run(argv) == 2 and "--force" in capsys.readouterr().out
    with zipfile.ZipFile(out) as made:
        assert made.namelist() == ["prepared.json", "rows.parquet"]
        assert json.loads(made.read("prepared.json")) == told


def test_a_description_alone_is_written_beside_no_archive(tmp_path, monkeypatch):
    file = kept(tmp_path, parquet(GOOD_TOKENS), "rows.parquet")
    found = token_rows.TokenFiles([token_rows.TokenFile(2, 5, 3, [[2, 1], [3, 1]], [[3, 1], [2, 2]])], [], 0)
    monkeypatch.setattr("datasets.formats.prepared.measure_files", lambda paths: found)
    document = describe_files(named_files([str(file)]), MadeWith("acme/tiny", "rev-1", None))
    write_description(document, {}, tmp_path / "prepared.json")
    assert json.loads((tmp_path / "prepared.json").read_text())["chatTemplateSha256"] is None
    with pytest.raises(InvalidInput):
        named_files([str(tmp_path / "prepared.json")])
    with pytest.raises(InvalidInput):
        named_files([str(file), str(file)])


# Evaluation items


def test_evaluation_items_are_counted_and_keep_their_fixture(tmp_path):
    with read_eval_items(kept(tmp_path, items())) as found:
        assert (found.format, found.num_examples, found.row_paths) == ("eval-items-v1", 2, {"items.jsonl": 2})
        assert [item.path for item in found.objects] == ["dataset.json", "items.jsonl", "fixtures/shop-db.json"]
        assert b"".join(found.objects[2].chunks()) == b'{"orders": []}'


@pytest.mark.parametrize(("files", "place", "code"), [
    ({"dataset.json": {"fixture": "fixtures/other.json"}}, "dataset.json: fixture", "fixture_missing"),
    ({"dataset.json": {"format": "chat"}}, "dataset.json: format", "other_format"),
    ({"dataset.json": "[1]"}, "dataset.json", "not_an_object"),
    ({"dataset.json": '{"a": 1, "a": 2}'}, "dataset.json: a", "duplicate_key"),
    ({"dataset.json": " " * (1 << 20) + "{}"}, "dataset.json", "descriptor_too_large"),
    ({"extra.txt": "x"}, "extra.txt", "unexpected_object"),
    ({"items.jsonl": "\n\n"}, "items.jsonl", "no_items"),
    ({"items.jsonl": '{"id": "a", "input": "?"}\n{"id": "a", "input": "!"}'}, "line 2 of items.jsonl: id",
     "id_repeated"),
    ({"items.jsonl": '{"id": 7, "input": "?"}'}, "line 1 of items.jsonl: id", "id_invalid"),
    ({"items.jsonl": '{"input": "?"}\n[1]'}, "line 2 of items.jsonl", "not_an_object"),
    ({"items.jsonl": '{"input": "?"}\n{'}, "line 2 of items.jsonl", "not_json"),
    ({"items.jsonl": '{"input": "?"}\n{}'}, "line 2 of items.jsonl", "item_empty"),
    ({"items.jsonl": '{"id": "a", "messages": null}'}, "line 1 of items.jsonl", "item_empty"),
])
def test_evaluation_items_are_refused_by_file_and_line(tmp_path, files, place, code):
    with pytest.raises(DatasetInvalid) as refused, read_eval_items(kept(tmp_path, items(**files))):
        pass
    assert codes(refused) == [(place, code)]


# Archives that mean harm


def with_fixture(name, content=b"x", mode=0, **columns):
    """Items that are good but for their fixture."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    for key, value in columns.items():
        setattr(info, key, value)
    held = io.BytesIO(archive({"dataset.json": {"fixture": name}, "items.jsonl": '{"input": "?"}'}))
    with zipfile.ZipFile(held, "a", zipfile.ZIP_DEFLATED) as target:
        target.writestr(info, content)
    return held.getvalue()


def changed(data, at, piece):
    """The bytes with a piece laid over them, counted from a mark or from the end."""
    at = data.rindex(at[0]) + at[1] if isinstance(at, tuple) else len(data) + at
    return data[:at] + piece + data[at + len(piece):]


ENTRY = b"PK\x01\x02"
ATTACKS = {
    "a path out of it": with_fixture("../x"), "an absolute path": with_fixture("/etc/x"),
    "a path of a drive": with_fixture("C:/x"), "a backslash": with_fixture("..\\x"),
    "a sign nobody sees": with_fixture("a\u202eb"), "a link": with_fixture("x", b"/etc/passwd", stat.S_IFLNK | 0o777),
    "a device": with_fixture("x", b"", stat.S_IFCHR), "two names alike but for case": with_fixture("ITEMS.jsonl"),
    "a name twice": with_fixture("items.jsonX").replace(b"items.jsonX", b"items.jsonl"),
    "an unpacking of many times its size": with_fixture("x", b"\0" * 3000, compress_type=zipfile.ZIP_DEFLATED),
    "a password": changed(items(), (ENTRY, 8), b"\1"), "an unknown packing": changed(items(), (ENTRY, 10), b"\x62"),
    "a wrong checksum": items().replace(b'{"orders": []}', b'{"orders": {}}'),
    "an archive inside": with_fixture("x", items()), "a gzip inside": with_fixture("x", b"\x1f\x8b\x08"),
    "a file in front": b"#!/bin/sh\n" + items(), "an archive in front": items() + items(),
    "no end": items()[:-5], "a beginning alone": b"PK\x03\x04", "more entries than are taken": changed(
        items(), -14, b"\xff\xff\xff\xff"), "a directory of gigabytes": changed(items(), -10, b"\xf0\xff\xff\xff"),
}


@pytest.mark.parametrize("data", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_archive_that_means_harm_is_refused(tmp_path, monkeypatch, data):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "1500")
    monkeypatch.setattr("datasets.formats.archives.UNPACKED_TIMES", 1)
    with pytest.raises((ArchiveRefused, DatasetInvalid)) as refused, read_eval_items(kept(tmp_path, data)):
        pass
    assert refused.type is ArchiveRefused or codes(refused)[0][1] == "nested_archive"


def test_an_archive_whose_fixture_is_good_is_taken(tmp_path):
    with read_eval_items(kept(tmp_path, with_fixture("x", b"\0" * 100))) as found:
        assert found.num_examples == 1


def test_an_entry_of_another_name_is_no_part_of_prepared_rows(tmp_path):
    data = archive({"prepared.json": DESCRIPTOR, "rows.parquet": parquet(GOOD_TOKENS), "notes.txt": "x"})
    with pytest.raises(DatasetInvalid) as refused, read_prepared(kept(tmp_path, data)):
        pass
    assert codes(refused) == [("notes.txt", "unexpected_object")]
    data = archive({"prepared.json": DESCRIPTOR})
    with pytest.raises(DatasetInvalid) as refused, read_prepared(kept(tmp_path, data)):
        pass
    assert codes(refused) == [("file", "no_rows")]


TOKEN_ROWS = json.loads((Path(__file__).resolve().parents[1] / "token_row_cases.json").read_text())


@pytest.mark.requirement("R104")
@pytest.mark.parametrize("case", TOKEN_ROWS, ids=lambda case: case["name"])
def test_a_token_row_is_refused_in_the_words_that_a_job_uses(tmp_path, case):
    reader = token_rows.Reader()
    reader.read(0, str(kept(tmp_path, parquet([GOOD_TOKENS[0], (case["tokens"], case["mask"])]))))
    assert [(bad.row, bad.message) for bad in reader.bad] == [(2, message) for message in case["messages"]]


# Images


@pytest.mark.parametrize(("data", "facts"), [
    (png(3, 2), ImageFacts("image/png", 3, 2)),
    (picture("PNG", 9, 5, "P"), ImageFacts("image/png", 9, 5)),
    (picture("JPEG", 640, 480, progressive=True, comment=b"\xff\xd9ab"), ImageFacts("image/jpeg", 640, 480)),
    (picture("JPEG", 7, 9, "CMYK"), ImageFacts("image/jpeg", 7, 9)),
    (picture("WEBP", 100, 50, exif=b"Exif\0\0"), ImageFacts("image/webp", 100, 50)),
    (picture("WEBP", 16, 8, lossless=True), ImageFacts("image/webp", 16, 8)),
    (picture("WEBP", 20, 10), ImageFacts("image/webp", 20, 10)),
])
def test_an_image_tells_its_kind_and_size(tmp_path, data, facts):
    assert read_image(kept(tmp_path, data)) == facts


HUGE = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))


def png_header(depth, colour):
    return png_chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, depth, colour, 0, 0, 0))


@pytest.mark.parametrize(("data", "reason"), [
    (b"", "no PNG"), (b"<svg/>", "no PNG"), (b"GIF89a" + bytes(20), "no PNG"), (png()[:-12], "in the middle"),
    (png()[:20], "in the middle"), (png().replace(b"\x02\x08", b"\x04\x08", 1), "checksum"),
    (png()[:8] + png_chunk(b"IEND", b""), "header"), (png()[:8] + HUGE + png()[33:], "60000 by 60000"),
    (png(0, 1), "0 by 1"), (jpeg(9, 9)[:-2], "in the middle"), (b"\xff\xd8\xff\xda\x00\x02\xff\xd9", "size"),
    (b"\xff\xd8\xff\xe0\xff\xff\xff\xd9", "in the middle"), (jpeg(20_000, 1), "20000 by 1"),
    (webp(b"VP8X", bytes(10))[:-4], "in the middle"), (webp(b"ABCD", bytes(10)), "size"),
    (png()[:8] + png_header(3, 2) + png()[33:], "no PNG"), (png()[:8] + png_header(8, 5) + png()[33:], "no PNG"),
    (png()[:33] + png()[-12:], "no pixel"), (jpeg(9, 9).replace(b"\xff\xda", b"\xff\xd0"), "no pixel"),
    (png()[:33] + png_chunk(b"IDAT", b"no stream") + png()[-12:], "pixels cannot be read"),
    (png()[:33] + png_chunk(b"IDAT", zlib.compress(b"\0")) + png()[-12:], "pixels cannot be read"),
    (webp(b"VP8X", bytes(4) + b"\x63\0\0\x31\0\0"), "pixels cannot be read"),
    (webp(b"VP8L", b"\x2f" + (15 | 7 << 14).to_bytes(4, "little") + bytes(5)), "pixels cannot be read"),
    (webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 20, 10)), "pixels cannot be read"),
    (jpeg(640, 480), "pixels cannot be read"), (jpeg(9, 9, 0xC3), "frame 3"),
    (jpeg(9, 9).replace(b"\x0b\x08", b"\x0b\x0c"), "12 bits"),
])
def test_bytes_that_are_no_whole_image_are_refused(tmp_path, data, reason):
    with pytest.raises(ImageRefused, match=reason):
        read_image(kept(tmp_path, data))


def test_no_image_library_is_loaded_before_an_image_is_read():
    code = "import sys, datasets.image_bytes; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_image_of_too_many_bytes_is_refused_unread(tmp_path):
    path = kept(tmp_path, png())
    with path.open("ab") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ImageRefused, match="at most"):
        read_image(path)


# Without a box


@pytest.mark.parametrize(("data", "format", "number"), [
    (lines(ROW), "chat-jsonl-v1", 1), (lines(PAIR), "preference-jsonl-v1", 1), (items(), "eval-items-v1", 2)])
def test_a_file_of_any_format_is_validated_without_a_box(tmp_path, capsys, data, format, number):
    assert Command().run(["validate", str(kept(tmp_path, data)), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["exampleCount"], told["valid"]) == (format, number, True)
    assert told["pairCount"] == (1 if "preference" in format else None)
    assert Command().run(["validate", str(tmp_path / "file.zip")]) == 0
    assert "every row can be registered" in capsys.readouterr().out


def test_validation_looks_for_images_beside_the_rows(tmp_path, capsys):
    part = [{"type": "image", "path": "images/a.png"}, {"type": "text", "text": "?"}]
    rows = kept(tmp_path, lines({"messages": [{"role": "user", "content": part}, BETTER]}), "rows.jsonl")
    assert Command().run(["validate", str(rows)]) == 3
    assert "images/a.png" in capsys.readouterr().err
    (tmp_path / "images").mkdir()
    kept(tmp_path / "images", png(), "a.png")
    assert Command().run(["validate", str(rows), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    named = f"\nimages/a.png\0{hashlib.sha256(png()).hexdigest()}"
    assert told["imageCount"] == 1
    assert told["contentHash"] == hashlib.sha256(rows.read_bytes().rstrip(b"\n") + named.encode()).hexdigest()
    kept(tmp_path / "images", b"no image", "a.png")
    assert Command().run(["validate", str(rows)]) == 3


def test_validation_refuses_with_the_line_and_status_3(tmp_path, capsys):
    assert Command().run(["validate", str(kept(tmp_path, lines(PAIR, PAIR | {"rejected": BETTER})))]) == 3
    assert "line 2: rejected" in capsys.readouterr().err
    assert DIGEST not in capsys.readouterr().err


def test_rows_of_other_roles_among_many_alike_are_taken_as_they_are():
    alike, other, bad = (json.dumps({"messages": [{"role": role, "content": role} for role in roles]}).encode()
                         for roles in (["user", "assistant"], ["system", "user", "assistant"], ["user", "user"]))
    lines, examiner = [alike] * 3 + [other, alike, bad, alike], ChatExaminer(0)
    assert examiner.take(Batch(1, b"\n".join([alike] * 5))) == []
    assert examiner.take(Batch(6, b"\n".join(lines))) == [5]
    assert examiner.take(Batch(13, b"\n".join([alike.replace(b"}]}", b'}], "messages": []}'), alike]))) == [0]
    assert (examiner.statistics.num_rows, examiner.statistics.num_system_rows) == (12, 1)
