"""Collecting garbage: only what nothing refers to, only after a while, and never what somebody takes up meanwhile."""

import json
import os
import time
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from datasets import overlaps
from datasets.images import put_image, put_manifest
from datasets.models import Image
from datasets.operations import register_dataset
from optimize_site.kernel import garbage
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.blobs import blob_path, hold, put_stream
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import Forbidden
from optimize_site.kernel.models import Attempt, Blob, Event
from optimize_site.kernel.work import attempt_folder
from registry.errors import CollectionRunning
from registry.management.commands.registry import Command as Registry
from registry.operations.bundles import register_bundle
from registry.operations.garbage import LOCK, collect_garbage, list_garbage
from tests import factories as make
from tests.archives import png
from tests.unit.test_archives import zipped

pytestmark = pytest.mark.django_db
LONG_AGO = time.time() - 3 * 86_400


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch, settings):
    """A state folder of the test's own, so that nothing of another test lies in it."""
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    settings.STORAGES = settings.STORAGES | {"blobs": {
        "BACKEND": settings.STORAGES["blobs"]["BACKEND"], "OPTIONS": {"location": tmp_path / "blobs"}}}
    return tmp_path


def grow_old():
    Blob.objects.update(held_at=timezone.now() - timedelta(days=3))
    for path in home().rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


def old_file(path, data=b"left over"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))
    os.utime(path.parent, (LONG_AGO, LONG_AGO))
    return path


def found():
    return {(waste.kind, waste.name) for waste in list_garbage(actor=LOCAL).found}


def test_a_dry_run_lists_what_would_go_with_its_size_and_removes_nothing():
    blob = put_stream([b"nobody's"])
    grow_old()
    listed = list_garbage(actor=Actor("vera", "viewer"))
    assert [(waste.kind, waste.name, waste.size_bytes) for waste in listed.found] == [("blob", blob.sha256, 8)]
    assert listed.size_bytes == 8
    assert blob_path(blob.sha256).exists() and Blob.objects.filter(pk=blob.sha256).exists()


def test_collecting_removes_row_and_file_and_tells():
    blob = put_stream([b"nobody's"])
    grow_old()
    done = collect_garbage(actor=LOCAL)
    assert (len(done.found), done.size_bytes) == (1, 8)
    assert not blob_path(blob.sha256).exists() and not Blob.objects.exists()
    assert Event.objects.get(type="registry.collected").data == {"removed": 1, "bytes": 8}


def test_what_a_version_an_open_upload_or_a_run_names_is_never_found():
    from datasets.models import Upload

    make.make_run()
    register_bundle("triage/scoring", [zipped(("reward.py", b"x"))], actor=LOCAL)
    awaited = put_stream([b"a shard of an upload that stopped"])
    Upload.objects.create(reference="triage/more", created_by="ada", expires_at=timezone.now() + timedelta(days=7),
                          planned=[{"path": "examples-00000.jsonl", "sha256": awaited.sha256, "bytes": 1}])
    grow_old()
    assert {kind for kind, _ in found()} <= {"attempt folder"}
    assert Blob.objects.count() >= 3


def test_young_bytes_stay_whoever_does_not_name_them():
    put_stream([b"just sent"])
    assert found() == set()


def test_bytes_that_somebody_puts_or_is_told_of_between_looking_and_removing_stay():
    put_again, held = put_stream([b"put again"]), put_stream([b"told of"])
    grow_old()
    before = timezone.now() - timedelta(days=1)
    looked = list(garbage.unnamed_blobs(before))
    assert len(looked) == 2
    put_stream([b"put again"])
    hold([held.sha256])
    assert [waste.remove() for waste in looked] == [False, False]
    assert blob_path(put_again.sha256).exists() and blob_path(held.sha256).exists()


@pytest.mark.django_db(transaction=True)
def test_images_that_rows_are_registered_with_between_looking_and_removing_stay():
    image = put_image([png()], actor=LOCAL)[0].pk
    list_, _ = put_manifest([json.dumps({"path": "a.png", "sha256": image}).encode()], actor=LOCAL)
    grow_old()
    before = timezone.now() - timedelta(days=1)
    waste = {waste.name: waste for waste in garbage.unnamed_blobs(before)}
    content = [{"type": "image", "path": "a.png"}, {"type": "text", "text": "?"}]
    row = {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "b"}]}
    register_dataset("pages/train", [json.dumps(row).encode()], actor=LOCAL, images=list_)
    assert not waste[image].remove()
    assert blob_path(image).exists() and Image.objects.exists()


def test_bytes_that_are_being_put_at_this_moment_are_left_alone():
    import threading

    from django.db import connection, transaction

    blob = put_stream([b"raced for"])
    grow_old()
    before = timezone.now() - timedelta(days=1)
    outcome = []

    def collect():
        outcome.append(garbage.remove_blob(blob.sha256, before))
        connection.close()

    with transaction.atomic():
        put_stream([b"raced for"])
        collecting = threading.Thread(target=collect)
        collecting.start()
        collecting.join()
    assert outcome == [False]
    assert blob_path(blob.sha256).exists()


def test_a_file_that_no_blob_is_about_goes_and_the_same_bytes_can_come_again():
    blob = put_stream([b"row lost"])
    Blob.objects.all().delete()
    grow_old()
    assert {kind for kind, _ in found()} == {"stray file"}
    collect_garbage(actor=LOCAL)
    assert not blob_path(blob.sha256).exists() and not Blob.objects.exists()
    assert blob_path(put_stream([b"row lost"]).sha256).read_bytes() == b"row lost"


def test_leftovers_of_dead_processes_go_and_fresh_ones_stay():
    old_file(home() / "scratch" / "blob-old")
    (home() / "scratch" / "blob-new").write_bytes(b"on its way")
    old_file(attempt_folder("f" * 64) / "plan.json")
    make.make_run(phase="AWAITING_CAPACITY")
    make.make_device()
    known = old_file(attempt_folder(make.claim_job().pk) / "plan.json")
    assert found() == {("scratch file", "scratch/blob-old"), ("attempt folder", f"attempts/{'f' * 64}")}
    collect_garbage(actor=LOCAL)
    assert not attempt_folder("f" * 64).exists()
    assert known.exists() and (home() / "scratch" / "blob-new").exists()


def test_only_folders_of_base_models_that_nothing_uses_go():
    make.make_base_model(folder="base-models/acme--tiny/present")
    old_file(home() / "base-models" / "acme--tiny" / "present" / "config.json")
    old_file(home() / "base-models" / "acme--tiny" / "replaced" / "config.json")
    old_file(home() / "base-models" / "acme--tiny" / "read" / "config.json")
    make.make_run(phase="AWAITING_CAPACITY")
    make.make_device()
    attempt = make.claim_job()
    attempt_folder(attempt.pk).mkdir(parents=True)
    (attempt_folder(attempt.pk) / "plan.json").write_text(f'{{"folder": "{home()}/base-models/acme--tiny/read"}}')
    assert {name for kind, name in found() if kind == "base model folder"} == {"base-models/acme--tiny/replaced"}


def test_saves_that_were_never_committed_go_once_their_attempt_is_over():
    from runs.models import Snapshot

    run = make.make_run(phase="AWAITING_CAPACITY")
    make.make_device()
    attempt = make.claim_job()
    snapshots = attempt_folder(attempt.pk) / "snapshots"
    for name in ("step-1", "step-2", ".step-3.partial"):
        old_file(snapshots / name / "adapter_model.safetensors")
    Snapshot.objects.create(run_id=attempt.holder_id, attempt=attempt.number, step=1, folder="snapshots/step-1",
                            manifest_sha256="0" * 64, size_bytes=1)
    assert not [kind for kind, _ in found() if kind == "uncommitted save"]
    Attempt.objects.update(ended_at=timezone.now())
    gone = {name.rpartition("/")[2] for kind, name in found() if kind == "uncommitted save"}
    assert gone == {"step-2", ".step-3.partial"} and run.pk == attempt.holder_id


def test_what_was_noted_about_bytes_goes_with_them():
    from datasets.models import Shard

    blob = put_stream([b"a shard that was never registered"])
    Shard.objects.create(sha256=blob.sha256, rows_hash="0" * 64, size_bytes=1, num_examples=1, found={})
    grow_old()
    collect_garbage(actor=LOCAL)
    assert not Shard.objects.exists() and not Blob.objects.exists()


def test_comparisons_of_rows_are_collected_but_those_that_are_over():
    training = make.make_dataset("triage/train", 4)
    judged, other = make.make_dataset("triage/eval", 3), make.make_dataset("triage/other", 3)
    overlaps.compare(training, judged)
    overlaps.compare(training, other, overlaps.Budget(num_bytes=1))
    gone = old_file(overlaps.overlaps_folder() / f"{'a' * 32}-{judged.content_hash[:32]}.json", b"{}")
    torn = old_file(overlaps.overlaps_folder() / ".overlap-x1")
    begun = overlaps.overlaps_folder() / f"{training.content_hash[:32]}-{other.content_hash[:32]}.json"
    assert not {name for kind, name in found() if kind == "overlap" and name == str(begun.relative_to(home()))}
    grow_old()
    collect_garbage(actor=LOCAL)
    assert not any(path.exists() for path in (gone, torn, begun))
    assert [path.name for path in overlaps.overlaps_folder().iterdir()] == [
        f"{training.content_hash[:32]}-{judged.content_hash[:32]}.json"]


def test_only_an_admin_collects_and_only_one_at_a_time():
    with pytest.raises(Forbidden):
        collect_garbage(actor=Actor("olga", "operator"))
    from django.db import connections

    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    try:
        with pytest.raises(CollectionRunning):
            collect_garbage(actor=LOCAL)
    finally:
        other.close()


def test_route_and_command_say_the_same(capsys):
    put_stream([b"nobody's"])
    grow_old()
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    route = client.get("/v1/registry/garbage").json()
    assert (route["counts"], route["sizeBytes"], route["dryRun"]) == ({"blob": 1}, 8, True)
    assert Registry().run(["gc", "--dry-run"]) == 0
    assert "1 things of 8 bytes would go." in capsys.readouterr().out
    assert Registry().run(["gc"]) == 2
    assert Registry().run(["gc", "--force"]) == 0
    assert "are gone" in capsys.readouterr().out
    assert Registry().run(["gc", "--force"]) == 0
    assert "There is no garbage." in capsys.readouterr().out
