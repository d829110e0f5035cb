"""A box whose clock was a day ahead and is set right: what it wrote down lies ahead, and nothing waits for that."""

from datetime import datetime, timedelta

import pytest

from datasets import operations as uploads
from datasets.models import Upload
from datasets.upload_queries import KEPT_FOR
from gpu_worker import control
from optimize_site.kernel import clock
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.blobs import hold, put_stream
from optimize_site.kernel.garbage import unnamed_blobs
from optimize_site.kernel.models import Blob, Event
from optimize_site.kernel.sign_in import LONGEST_WAIT
from runs.models import Run
from runs.operations import advance_run, submit_run
from tests import factories as make
from tests.web.test_sign_in import PASSWORD, sign_in

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def set_back(monkeypatch):
    """The clock goes a day ahead; calling this sets it right."""
    right = clock.now
    monkeypatch.setattr(clock, "now", lambda: right() + DAY)
    return lambda: monkeypatch.setattr(clock, "now", right)


def submitted():
    run = submit_run(make.run_document(), actor=LOCAL).run
    advance_run(run.pk)
    return run


@pytest.mark.requirement("R016")
def test_work_that_comes_later_is_behind_what_waits_already(state, set_back):
    for name in ("cpu", "host"):
        make.make_device(name, kind=name, profile=name)
    make.make_workload()
    make.make_base_model()
    make.analyze(make.make_dataset("triage/train", 4), [100] * 4)
    first = submitted()
    set_back()
    second = submitted()
    assert [make.claim_job("cpu", slot=slot).holder_id for slot in (0, 1)] == [first.pk, second.pk]


@pytest.mark.requirement("R016", "R112")
def test_a_run_s_wait_for_its_analysis_begins_again(state, set_back):
    for name in ("cpu", "host"):
        make.make_device(name, kind=name, profile=name)
    make.make_workload()
    make.make_base_model()
    make.make_dataset("triage/train", 4)
    run = submitted()
    set_back()
    advance_run(run.pk)
    run = Run.objects.get(pk=run.pk)
    assert run.length_check["status"] == "waiting"
    assert datetime.fromisoformat(run.length_check["since"]) <= clock.now()


@pytest.mark.requirement("R309")
def test_an_upload_is_kept_for_its_seven_days_and_no_longer(set_back):
    shards = [("0" * 64, 9)]
    upload, _ = uploads.open_upload(uploads.Announced("triage/train", shards), actor=LOCAL)
    set_back()
    uploads.clean_uploads()
    upload = Upload.objects.get(pk=upload.pk)
    assert clock.now() + KEPT_FOR - timedelta(minutes=1) < upload.expires_at <= clock.now() + KEPT_FOR


@pytest.mark.requirement("R016")
def test_bytes_that_nothing_names_are_waste_after_the_grace_that_begins_now(set_back):
    blob = put_stream([b"something"])
    hold([blob.pk])
    set_back()
    assert control.blobs.end_holds_ahead in control.TENDING
    control.blobs.end_holds_ahead()
    assert Blob.objects.get(pk=blob.pk).held_at <= clock.now()
    assert [waste.name for waste in unnamed_blobs(clock.now() + timedelta(seconds=1))] == [blob.pk]


def test_a_guesser_of_before_closes_the_door_to_nobody(client):
    from optimize_site.kernel import accounts

    accounts.create_user("ada", "operator", password=PASSWORD, actor=LOCAL)
    for _ in range(6):
        sign_in(client, "wrong")
    assert sign_in(client).status_code == 429
    Event.objects.update(at=clock.now() + timedelta(seconds=LONGEST_WAIT))
    assert sign_in(client).status_code == 302
