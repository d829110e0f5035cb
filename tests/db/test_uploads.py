"""Datasets in shards by the command: cut, sent one by one, resumed, and the same as the file they were cut from."""

import json
import os
from pathlib import Path

import pytest

from datasets import cutting, queries, sending_shards, upload_queries
from datasets.errors import FileDoesNotFit
from datasets.identity import Identity
from datasets.ingest import examine_file
from datasets.models import Upload
from datasets.operations import sessions
from optimize_site.kernel import client as clients
from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.errors import OperationError, Unavailable
from optimize_site.kernel.models import Blob
from registry.management.commands.registry import Command as Registry
from registry.models import Version
from registry.queries import get_artifact
from tests.uploading import opened, row, uploaded, write_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path):
    return write_rows(tmp_path)


def command(*argv):
    return Registry().run([str(part) for part in argv])


def register(file, *argv, name="support/train"):
    return command("datasets", "register", name, "-f", file, "-o", "json", *argv)


def printed(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def sent(monkeypatch):
    """The paths of the shards that were sent; `sent.stop_after` makes the connection break behind so many."""
    class Sent(list):
        stop_after = None

    paths, send = Sent(), clients.Client.send

    def watched(self, method, path, chunks, length=None, **query):
        if method == "PUT":
            if paths.stop_after is not None and len(paths) >= paths.stop_after:
                raise KeyboardInterrupt
            paths.append(path.rpartition("/")[2])
        return send(self, method, path, chunks, length, **query)

    monkeypatch.setattr(clients.Client, "send", watched)
    return paths


@pytest.mark.requirement("R307", "R308")
def test_a_file_cut_into_shards_is_the_same_dataset_as_the_file(file, sent, capsys):
    whole = examine_file(file)
    assert register(file, "--shard-size", "2KiB") == 0
    made = printed(capsys)
    paths = [item["path"] for item in made["objects"]]
    assert len(paths) > 2 and paths == [f"examples-{place:05}.jsonl" for place in range(len(paths))] == sent
    assert made["contentHash"] == whole.content_hash
    facts = whole.facts()
    assert (made["exampleCount"], made["toolRows"], made["blankLines"]) == (41, 8, 1)
    assert (made["statistics"], made["findings"]) == (facts.statistics, facts.findings)
    version = Version.objects.get()
    assert b"".join(Path(path).read_bytes() for path in queries.dataset_files(version)) == file.read_bytes()
    assert all(item["bytes"] <= 2048 for item in made["objects"])


@pytest.mark.requirement("R308")
def test_the_cut_depends_on_the_file_and_the_size_alone(file, capsys):
    for name in ("support/one", "support/two"):
        assert register(file, "--shard-size", "3000", name=name) == 0
    one, two = [json.loads(text + "}") for text in capsys.readouterr().out.split("\n}")[:2]]
    assert one["objects"][0]["sha256"] == two["objects"][0]["sha256"] and one["digest"] == two["digest"]
    assert register(file, name="support/whole") == 0
    assert [item["path"] for item in printed(capsys)["objects"]] == ["examples.jsonl"]


@pytest.mark.requirement("R309")
def test_an_upload_that_was_stopped_goes_on_where_it_was(file, sent, capsys):
    sent.stop_after = 2
    assert register(file, "--shard-size", "2KiB") == 130
    assert not Version.objects.exists()
    sent.stop_after = None
    assert register(file, "--shard-size", "2KiB", "--alias", "good") == 0
    made = printed(capsys)
    assert sent == [item["path"] for item in made["objects"]]  # each went over once
    assert made["contentHash"] == examine_file(file).content_hash and made["aliases"] == ["good"]
    assert Upload.objects.get().phase == "REGISTERED"


def test_a_box_that_starts_anew_in_the_middle_costs_a_shard_sent_twice(file, monkeypatch, capsys):
    send, failures = clients.Client.send, [Unavailable("The box does not answer.")] * 2

    def broken(self, method, path, chunks, length=None, **query):
        if method == "PUT" and failures and path.endswith("00001.jsonl"):
            next(chunks)
            raise failures.pop()
        return send(self, method, path, chunks, length, **query)

    monkeypatch.setattr(clients.Client, "send", broken)
    monkeypatch.setattr("datasets.sending_shards.time.sleep", lambda seconds: None)
    assert register(file, "--shard-size", "2KiB") == 0
    assert printed(capsys)["contentHash"] == examine_file(file).content_hash


def test_the_same_bytes_are_neither_sent_nor_parsed_again(file, sent, monkeypatch, capsys):
    assert register(file, "--shard-size", "2KiB") == 0
    sent.clear()
    monkeypatch.setattr(sessions, "take_shard", None)
    monkeypatch.setattr(sessions, "_rows_hash", None)
    assert register(file, "--shard-size", "2KiB") == 0
    assert register(file, "--shard-size", "2KiB", name="support/again") == 0
    assert not sent and Version.objects.count() == 2
    assert not json.loads(capsys.readouterr().out.split("\n}")[1] + "}")["isNew"]


def test_shards_that_came_in_order_are_hashed_together_and_not_read_again(file, monkeypatch, capsys):
    whole = examine_file(file).content_hash
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "read_region", None)
        assert register(file, "--shard-size", "2KiB") == 0
    assert printed(capsys)["contentHash"] == whole
    upload, first = Upload.objects.get(), Identity()
    for item in upload.planned[:2]:
        first = first.going_on()
        first.add([blob_path(item["sha256"]).read_bytes()])
    for known in ({}, {sessions._names(upload.planned[:2]): first}):
        monkeypatch.setattr(sessions, "_hashed", known)
        assert sessions._rows_hash(upload, b"") == whole


def test_what_was_noticed_about_a_file_is_said_each_time_it_is_registered():
    body = row(0) + b"\n" + row(0).replace(b"\n", b"\r\n")
    noticed = [uploaded(body, reference=name).sent for name in ("support/train", "support/again")]
    assert noticed[0].facts.findings and noticed[0].facts.findings == noticed[1].facts.findings
    assert noticed[1].num_blank_lines == 1


@pytest.mark.requirement("R309")
def test_only_what_the_box_may_hold_is_hashed_before_it_is_sent(file, sent, monkeypatch, capsys):
    hashed, hash_ = [], sending_shards._hash
    monkeypatch.setattr(sending_shards, "_hash",
                        lambda path, cut, watched: hashed.append(cut) or hash_(path, cut, watched))
    sent.stop_after = 2
    assert register(file, "--shard-size", "2KiB") == 130 and not hashed
    sent.stop_after = None
    assert register(file, "--shard-size", "2KiB") == 0
    assert printed(capsys)["contentHash"] == examine_file(file).content_hash
    assert len(hashed) == 2 < len(sent)
    hashed.clear()
    assert register(file, "--shard-size", "2KiB", name="support/again") == 0
    assert len(hashed) == len(sent)


def test_bytes_that_change_on_their_way_are_noticed(file, monkeypatch, capsys):
    elsewhere = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(clients.Client, "is_here", elsewhere, raising=False)
    assert register(file, "--shard-size", "2KiB") == 0
    file.write_bytes(row(7))
    send = clients.Client.send
    monkeypatch.setattr(clients.Client, "send", lambda self, method, path, chunks, length=None, **query: send(
        self, method, path, (chunk.replace(b"3", b"4") for chunk in chunks), length, **query))
    capsys.readouterr()
    assert register(file) == 3
    refused = printed(capsys)
    assert refused["code"] == "shard_mismatch" and "was sent as" in refused["detail"]


def test_a_longer_file_sends_only_what_came_to_it(file, sent):
    assert register(file, "--shard-size", "2KiB") == 0
    first = len(sent)
    file.write_bytes(file.read_bytes() + b"\n" + b"".join(row(number) for number in range(100, 110)))
    assert register(file, "--shard-size", "2KiB") == 0
    assert len(sent) - first == 2  # the last shard, which grew, and the one behind it
    assert examine_file(file).content_hash == get_artifact("dataset", "support/train").versions.get(
        number=2).content_hash


@pytest.mark.requirement("R310")
def test_a_file_that_does_not_fit_is_refused_before_sending_and_told_what_fits(file, sent, monkeypatch, capsys):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "4096")
    assert command("info", "-o", "json") == 0
    limits = printed(capsys)["datasets"]
    assert limits == {"maxBytes": 4096, "maxShards": 1000, "maxShardBytes": 4096, "uploadDays": 7}
    assert register(file) == 3
    refused = printed(capsys)
    assert refused["code"] == "file_does_not_fit" and refused["hint"] == "Pass `--shard-size 4KiB`."
    assert register(file, "--shard-size", "8KiB") == 3
    assert "--shard-size 4KiB" in printed(capsys)["hint"]
    assert not sent and not Upload.objects.exists()
    assert register(file, "--shard-size", "4KiB") == 0


@pytest.mark.requirement("R310", "R307")
def test_too_many_shards_are_refused_naming_a_size_that_gives_fewer(file, tmp_path):
    limits = {"maxShards": 3, "maxShardBytes": 1 << 20}
    with pytest.raises(FileDoesNotFit, match="at most 3") as info:
        cutting.plan_shards(file, 1024, limits)
    size = cutting.parse_size(info.value.hint.split()[2].strip("`."))
    assert len(cutting.plan_shards(file, size, limits)) <= 3
    with pytest.raises(cutting.DatasetTooLarge) as info:
        cutting.plan_shards(file, 1024, {"maxShards": 2, "maxShardBytes": 1024})
    assert "several datasets" in info.value.hint


@pytest.mark.requirement("R307", "R308")
def test_a_file_is_cut_at_256_mebibytes_where_no_size_is_stated(tmp_path):
    most, path = 256 << 20, tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.seek(most - 5)
        file.write(b"\n")
        file.truncate(most + 100)
    limits = {"maxShards": 1000, "maxShardBytes": most}
    assert [(cut.start, cut.end) for cut in cutting.plan_shards(path, None, limits)] == [
        (0, most - 4), (most - 4, most + 100)]
    os.truncate(path, most)
    assert len(cutting.plan_shards(path, None, limits)) == 1


@pytest.mark.requirement("R308")
def test_a_line_longer_than_a_shard_is_refused_with_its_number(tmp_path):
    path = tmp_path / "long.jsonl"
    long = json.dumps({"messages": [{"role": "user", "content": "x" * 5000}]}).encode() + b"\n"
    path.write_bytes(row(1) + row(2) + long + row(3))
    with pytest.raises(FileDoesNotFit, match=r"Line 3 of long.jsonl has 5,\d+ bytes") as info:
        cutting.plan_shards(path, 1000, upload_queries.limits())
    assert info.value.hint == "Pass `--shard-size 5KiB`."


def test_bad_lines_are_named_as_those_of_the_shard_and_of_the_file(file, capsys):
    lines = file.read_bytes().splitlines(keepends=True)
    lines[30] = b'{"messages": []}\n'
    file.write_bytes(b"".join(lines))
    assert register(file, "--shard-size", "2KiB") == 3
    problem, = printed(capsys)["problems"]
    assert problem["path"].startswith("line 31 (line 16 of examples-00001.jsonl): ")
    assert problem["code"] == "messages_missing"
    assert not Version.objects.exists()


@pytest.mark.parametrize("body", [b"[" + row(1) + b"]", b"\x1f\x8b\x08\x00", b"PAR1"])
def test_other_forms_of_a_file_are_refused_before_it_is_sent(body, tmp_path, sent):
    (tmp_path / "other").write_bytes(body * 1000)
    assert register(tmp_path / "other", "--shard-size", "1KiB") == 3
    assert not sent


def test_nothing_is_sent_with_no_upload(file, sent, capsys):
    assert register(file, "--shard-size", "2KiB", "--no-upload") == 0
    document = printed(capsys)
    assert document["shardCount"] == 3 and document["missingImages"] == [] and document["exampleCount"] == 41
    assert not sent and not Upload.objects.exists() and not Blob.objects.exists()


@pytest.mark.parametrize("text", ["", "0", "many", "1.5MiB", "-3", "1TiB"])
def test_a_size_of_a_shard_is_understood_or_refused(text):
    assert [cutting.parse_size(size) for size in ("64MiB", "64M", "64mb", "1GiB", "300", "2 KiB")] == [
        1 << 26, 1 << 26, 1 << 26, 1 << 30, 300, 2048]
    with pytest.raises(OperationError):
        cutting.parse_size(text)


def test_uploads_that_were_stopped_are_listed_and_given_up(capsys):
    upload = opened(row(1), row(2))
    assert command("datasets", "uploads", "-o", "json") == 0
    assert [item["id"] for item in printed(capsys)["uploads"]] == [upload.pk]
    assert command("datasets", "abandon", upload.pk) == 0
    assert not Upload.objects.exists()


def test_a_file_that_changes_while_it_is_sent_is_not_registered(file, sent, monkeypatch, capsys):
    send, body = clients.Client.send, file.read_bytes()

    def written_to(self, method, path, *rest, **query):
        if len(sent) == 1:
            file.write_bytes(body.replace(b"question 1", b"question 7"))
        return send(self, method, path, *rest, **query)

    monkeypatch.setattr(clients.Client, "send", written_to)
    assert register(file, "--shard-size", "1KiB") == 3
    refused = printed(capsys)
    assert refused["code"] == "shard_mismatch" and not Version.objects.exists()
    assert register(file, "--shard-size", "1KiB") == 0
    assert printed(capsys)["contentHash"] == examine_file(file).content_hash


# Who reads them ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R312")
def test_rows_are_read_across_shards(file):
    register(file, "--shard-size", "2KiB")
    version = Version.objects.get()
    lines = [line.data for line in queries.lines_of(queries.example_set(version))]
    assert lines == [line for line in file.read_bytes().split(b"\n") if line]
