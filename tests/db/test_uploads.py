"""Datasets in shards: cut by the command, sent one by one, resumed, and the same as the file they were cut from."""

import hashlib
import json
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from datasets import cutting, operations, queries, sending_shards, upload_queries
from datasets.errors import (
    DatasetInvalid,
    DiskFull,
    FileDoesNotFit,
    FormatMismatch,
    ShardInvalid,
    ShardMismatch,
    UploadClosed,
    UploadIncomplete,
    UploadUnknown,
)
from datasets.identity import Identity
from datasets.ingest import examine_file
from datasets.models import Shard, Upload
from datasets.operations import Announced, intake, sessions
from optimize_site.kernel import client as clients
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import Forbidden, OperationError, Unavailable
from optimize_site.kernel.models import Blob
from registry.errors import MalformedLineage
from registry.management.commands.registry import Command as Registry
from registry.models import Version
from registry.queries import get_artifact

pytestmark = pytest.mark.django_db
OPERATOR = Actor("olga", "operator")


def row(number, *, tools=False):
    row = {"messages": [{"role": "user", "content": f"question {number // 2}"},
                        {"role": "assistant", "content": json.dumps({"queue": ["billing", "returns"][number % 2]})}]}
    offered = {"tools": [{"type": "function", "function": {"name": "f"}}]} if tools else {}
    return json.dumps(row | offered).encode() + b"\n"


PAIR = json.dumps({"prompt": [{"role": "user", "content": "?"}], "chosen": {"role": "assistant", "content": "a"},
                   "rejected": {"role": "assistant", "content": "b"}}).encode() + b"\n"


@pytest.fixture
def file(tmp_path):
    """Rows of some kinds, a blank line among them, and no LF at the end."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes((b"".join(row(number, tools=number % 5 == 0) for number in range(40)) + b"\n" + row(0))[:-1])
    return path


def command(*argv):
    return Registry().run([str(part) for part in argv])


def register(file, *argv, name="support/train"):
    return command("datasets", "register", name, "-f", file, "-o", "json", *argv)


def printed(capsys):
    return json.loads(capsys.readouterr().out)


def announced(*bodies, reference="support/train", **more):
    return Announced(reference, [(hashlib.sha256(body).hexdigest(), len(body)) for body in bodies], **more)


def opened(*bodies, **more):
    return operations.open_upload(announced(*bodies, **more), actor=OPERATOR)[0]


def put(upload, place, body):
    operations.put_shard(upload, upload.planned[place]["path"], [body], actor=OPERATOR)


def uploaded(*bodies, **more):
    upload = opened(*bodies, **more)
    for place, body in enumerate(bodies):
        put(upload, place, body)
    return operations.complete_upload(upload, actor=OPERATOR)


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


@pytest.mark.django_db(transaction=True)
def test_the_same_announcement_from_several_at_once_opens_one_upload():
    start, opened_by = threading.Barrier(5), []

    def announce():
        try:
            start.wait()
            opened_by.append(operations.open_upload(announced(row(1), row(2)), actor=OPERATOR))
        finally:
            connection.close()

    threads = [threading.Thread(target=announce) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {upload.pk for upload, _ in opened_by} == {Upload.objects.get().pk}
    assert sorted(is_new for _, is_new in opened_by) == [False, False, False, False, True]


# The command -------------------------------------------------------------------------------------------------------


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


# The session -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R311")
def test_shards_may_come_in_any_order_and_are_complete_once(file):
    bodies = [b"\xef\xbb\xbf" + row(1) + b"\r\n", row(2), row(3) + row(4).strip()]
    upload = opened(*bodies)
    for place in (2, 0):
        put(upload, place, bodies[place])
    assert [item["path"] for item in upload_queries.lacking(upload)] == ["examples-00001.jsonl"]
    with pytest.raises(UploadIncomplete, match=r"1 of 3 .* examples-00001.jsonl"):
        operations.complete_upload(upload, actor=OPERATOR)
    put(upload, 1, bodies[1])
    done = operations.complete_upload(upload, actor=OPERATOR)
    upload.refresh_from_db()
    again = operations.complete_upload(upload, actor=OPERATOR)
    assert (done.is_new, again.is_new, again.version.pk) == (True, False, done.version.pk)
    file.write_bytes(b"".join(bodies))
    whole = examine_file(file)
    assert done.examples.content_hash == whole.content_hash and done.examples.findings == whole.facts().findings
    with pytest.raises(UploadClosed):
        put(upload, 0, bodies[0])


@pytest.mark.requirement("R311")
def test_the_same_announcement_finds_the_open_upload():
    upload = opened(row(1), row(2))
    found, is_new = operations.open_upload(announced(row(1), row(2), alias="good"), actor=OPERATOR)
    assert (found.pk, is_new, found.alias) == (upload.pk, False, "good")
    assert opened(row(2), row(1)).pk != upload.pk
    assert operations.open_upload(announced(row(1), row(2)), actor=Actor("otto", "operator"))[1]


def test_a_shard_that_was_not_hashed_before_is_what_came():
    bodies = [row(1), row(2)]
    unhashed = Announced("support/train", [("", len(body)) for body in bodies])
    upload = operations.open_upload(unhashed, actor=OPERATOR)[0]
    assert operations.open_upload(unhashed, actor=OPERATOR)[0].pk == upload.pk
    for _ in range(2):  # what came is looked at each time: it may be another file
        put(upload, 0, bodies[0])
    upload.refresh_from_db()
    assert upload_queries.listing(upload)[0]["sha256"] == hashlib.sha256(bodies[0]).hexdigest()
    with pytest.raises(ShardMismatch, match="came before as"):
        put(upload, 0, row(3))
    other, is_new = operations.open_upload(unhashed, actor=OPERATOR)  # it does not show that it has what came
    assert is_new and other.pk != upload.pk
    half = Announced("support/train", [announced(*bodies).shards[0], ("", len(bodies[1]))], alias="good")
    found, is_new = operations.open_upload(half, actor=OPERATOR)
    assert (found.pk, is_new) == (upload.pk, False)
    put(found, 1, bodies[1])
    found.refresh_from_db()
    assert operations.complete_upload(found, actor=OPERATOR).version.digest == uploaded(*bodies).version.digest


def test_two_files_of_one_size_that_are_sent_at_once_are_not_mixed():
    unhashed = Announced("support/train", [("", len(row(1)))])
    ours, theirs = (operations.open_upload(unhashed, actor=OPERATOR)[0] for _ in range(2))
    put(ours, 0, row(1))
    with pytest.raises(ShardMismatch, match="came before as"):
        put(theirs, 0, row(2))
    ours.refresh_from_db()
    assert operations.complete_upload(ours, actor=OPERATOR).examples.content_hash == hashlib.sha256(
        row(1).strip()).hexdigest()


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


def test_a_shard_that_comes_for_an_upload_that_was_given_up_meanwhile_is_refused():
    upload = operations.open_upload(Announced("support/train", [("", len(row(1)))]), actor=OPERATOR)[0]
    operations.abandon_upload(Upload.objects.get(pk=upload.pk), actor=OPERATOR)
    with pytest.raises(UploadUnknown):
        put(upload, 0, row(1))


def test_other_bytes_than_were_announced_are_not_kept():
    upload = opened(row(1), row(2))
    for body in (row(3), row(1) + row(1), row(1)[:-1]):
        with pytest.raises(ShardMismatch, match="announced"):
            put(upload, 0, body)
    with pytest.raises(ShardMismatch):
        operations.put_shard(upload, "examples-00000.jsonl", iter(()), length=3, actor=OPERATOR)
    with pytest.raises(UploadUnknown):
        operations.put_shard(upload, "examples-00002.jsonl", [row(1)], actor=OPERATOR)
    assert not Blob.objects.exists() and not Shard.objects.exists()
    assert not list((home() / "scratch").glob("blob-*"))


@pytest.mark.parametrize(("bodies", "code"), [
    ((row(1), b"\n \n"), "empty_file"), ((row(1), b"\xef\xbb\xbf" + row(2)), "byte_order_mark"),
    ((row(1), PAIR), "mixed_formats"), ((row(1), b"{}\n"), "messages_missing"),
])
def test_what_is_wrong_with_a_shard_names_it(bodies, code):
    upload = opened(*bodies)
    put(upload, 0, bodies[0])
    with pytest.raises(DatasetInvalid) as info:
        put(upload, 1, bodies[1])
    assert info.value.problems[0].code == code
    assert "examples-00001.jsonl" in info.value.detail


def test_shards_that_were_held_before_are_held_to_the_same_rules():
    uploaded(PAIR)
    with pytest.raises(DatasetInvalid, match="preference-jsonl-v1"):
        uploaded(row(1), PAIR)


def test_a_file_kept_before_is_looked_at_where_nothing_is_known_of_it():
    uploaded(row(1) + row(2))
    Shard.objects.all().delete()
    done = uploaded(row(1) + row(2), row(3))
    assert (done.examples.num_examples, Shard.objects.count()) == (3, 2)


@pytest.mark.requirement("R305")
def test_pairs_come_in_shards_too():
    other = PAIR.replace(b"?", b"!")
    done = uploaded(PAIR, other)
    assert (done.examples.format, done.examples.num_examples) == ("preference-jsonl-v1", 2)
    with pytest.raises(FormatMismatch):
        uploaded(PAIR, other, format="chat-jsonl-v1")


@pytest.mark.parametrize(("shards", "code"), [
    ([], "invalid_shards"), ([("a" * 64, 1)] * 1001, "invalid_shards"),
    ([("../x", 1), ("b" * 64, 1)], "invalid_digest"),
    ([("a" * 64, 1), ("b" * 64, (256 << 20) + 1)], "shard_size"), ([("a" * 64, 0), ("b" * 64, -1)], "shard_size"),
])
@pytest.mark.requirement("R307")
def test_shards_beyond_the_limits_are_refused(shards, code):
    with pytest.raises(ShardInvalid) as info:
        operations.open_upload(Announced("support/train", shards), actor=OPERATOR)
    assert code in [info.value.code, *(problem.code for problem in info.value.problems)]
    assert "larger" not in info.value.hint or shards
    assert all("smaller" not in found.hint for found in info.value.problems if " 0 bytes" in found.message)


def test_what_registration_would_refuse_is_refused_before_anything_is_sent():
    with pytest.raises(Forbidden):
        operations.open_upload(announced(row(1)), actor=Actor("vera", "viewer"))
    with pytest.raises(MalformedLineage):
        operations.open_upload(announced(row(1), lineage={"parents": 3}), actor=OPERATOR)
    for stated in ({"alias": "latest"}, {"format": "csv"}, {"format": "prepared-tokens-v1"}):
        with pytest.raises(OperationError):
            operations.open_upload(announced(row(1), **stated), actor=OPERATOR)
    assert not Upload.objects.exists()


def test_repeats_are_found_across_shards():
    done = uploaded(row(1), row(2), row(1))
    assert [finding["lines"] for finding in done.examples.findings if finding["code"] == "repeated_rows"] == [[3]]


def test_a_full_disk_costs_the_shard_and_nothing_else(monkeypatch):
    upload = opened(row(1), row(2))
    put(upload, 0, row(1))
    with monkeypatch.context() as patch, pytest.raises(DiskFull):
        patch.setattr(intake, "keep_scratch", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        put(upload, 1, row(2))
    assert not list((home() / "scratch").glob("blob-*"))
    put(upload, 1, row(2))
    assert operations.complete_upload(upload, actor=OPERATOR).is_new


@pytest.mark.requirement("R309")
def test_an_upload_is_kept_for_seven_days_and_then_forgotten_with_its_leftovers():
    kept, old = opened(row(1)), opened(row(2))
    assert timedelta(days=6, hours=23) < kept.expires_at - timezone.now() <= timedelta(days=7)
    Upload.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(UploadUnknown, match="no upload"):
        upload_queries.get_upload(old.pk)
    scratch = home() / "scratch"
    scratch.mkdir(exist_ok=True)
    left, fresh = scratch / "blob-left", scratch / "blob-fresh"
    for path in (left, fresh):
        path.write_bytes(b"half")
    os.utime(left, (1, 1))
    operations.clean_uploads()
    assert list(Upload.objects.values_list("pk", flat=True)) == [kept.pk]
    assert (left.exists(), fresh.exists()) == (False, True)
    fresh.unlink()


# Who reads them ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R312")
def test_rows_are_read_across_shards(file):
    register(file, "--shard-size", "2KiB")
    version = Version.objects.get()
    lines = [line.data for line in queries.lines_of(queries.example_set(version))]
    assert lines == [line for line in file.read_bytes().split(b"\n") if line]
