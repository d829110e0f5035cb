"""What waits for a device, and what the job of an attempt is told."""

import hashlib
import json

import pytest
from django.utils import timezone

from gpu_worker.engines.plans import complete
from optimize_site.kernel.errors import Unavailable
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import attempt_folder
from registry.models import BaseModel
from runs import queries
from runs.errors import SnapshotDamaged
from runs.models import Run
from runs.snapshots import verify_kind
from tests.factories import make_dataset, make_device, make_run
from tests.playing import STARTED, WORK, claim, end, metrics, reread, save, say

pytestmark = pytest.mark.django_db


def test_a_run_waits_for_a_device_of_its_profile(run, device):
    other = make_device("GPU-1", profile="h200", kind="gpu")
    assert [row.pk for row in WORK.waiting(device)] == [run.pk]
    assert list(WORK.waiting(other)) == []
    Run.objects.update(cancel_requested_at=timezone.now())
    assert list(WORK.waiting(device)) == []


@pytest.mark.requirement("R180")
def test_a_claim_starts_the_run_under_the_lease_s_token(run):
    attempt = claim(run)
    run = reread(run)
    assert (run.phase, run.lease_token, run.num_attempts) == ("STARTING_JOB", attempt.lease.token, 1)


def test_the_plan_states_every_setting_and_where_the_files_are(run):
    attempt = claim(run)
    plan = WORK.plan(WORK.get(run.pk), attempt)
    whole = complete(plan, attempt=attempt.pk, subject={"kind": "run", "id": run.pk}, threads=1,
                     device={"kind": "cpu", "uuids": []})
    assert whole["config"] == run.config
    assert whole["base_model"]["repository"] == "acme/tiny"
    assert whole["dataset"]["content_hash"] == run.config["dataset"]
    assert (whole["resume"], whole["first_attempt"], whole["validation"]) == (None, True, None)
    assert attempt.resumed_step is None


@pytest.mark.requirement("R085")
def test_the_plan_names_the_validation_rows(device):
    make_run()
    make_dataset("triage/held-out", 4)
    made = make_run(config={"data": {"validationDataset": "triage/held-out"}})
    plan = WORK.plan(made, Attempt(number=1))
    assert plan["validation"]["num_examples"] == 4
    assert plan["validation"]["files"] != plan["dataset"]["files"]


def test_a_base_model_that_is_not_there_any_more_keeps_the_job_from_starting(run):
    attempt = claim(run)
    BaseModel.objects.update(revision="another")
    with pytest.raises(Unavailable):
        WORK.plan(WORK.get(run.pk), attempt)


@pytest.mark.requirement("R031")
@pytest.mark.parametrize("harm", ["bytes", "missing", "manifest"])
def test_a_damaged_save_is_passed_over_for_an_older_one_and_that_is_told(run, harm):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1), metrics(2), save(attempt, 2))
    folder = attempt_folder(attempt.pk) / "snapshots" / "step-2"
    if harm == "missing":
        (folder / "optimizer.pt").unlink()
    else:
        (folder / ("state.manifest.json" if harm == "manifest" else "optimizer.pt")).write_bytes(b"{}")
    run = end(run, attempt, "lost", exit={"signal": 9})
    assert WORK.plan(WORK.get(run.pk), claim(run))["resume"]["step"] == 1
    told = queries.events_of(run).get(type="run.snapshot_passed_over")
    assert told.data["step"] == 2
    assert told.reason


def test_a_manifest_that_names_a_file_elsewhere_is_refused(tmp_path):
    manifest = json.dumps({"files": {"../x": {"sha256": "0"}}}).encode()
    (tmp_path / "weights.manifest.json").write_bytes(manifest)
    with pytest.raises(SnapshotDamaged, match="outside"):
        verify_kind(tmp_path, "weights", hashlib.sha256(manifest).hexdigest())
