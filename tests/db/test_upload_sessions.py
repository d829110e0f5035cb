"""Datasets in shards, session by session: announced, taken in, put together, refused and forgotten."""

import hashlib
import os
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from datasets import operations, upload_queries
from datasets.errors import (
    DatasetInvalid,
    DiskFull,
    FormatMismatch,
    ShardInvalid,
    ShardMismatch,
    UploadClosed,
    UploadIncomplete,
    UploadUnknown,
)
from datasets.ingest import examine_file
from datasets.models import Shard, Upload
from datasets.operations import Announced, intake
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import Forbidden, OperationError
from optimize_site.kernel.models import Blob
from registry.errors import MalformedLineage
from tests.uploading import OPERATOR, PAIR, announced, opened, put, row, uploaded, write_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path):
    return write_rows(tmp_path)


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
