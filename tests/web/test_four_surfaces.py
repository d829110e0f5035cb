"""The same request through web, admin, API and command: the same run, the same events, the same refusal."""

import html
import json
import re

import pytest

from optimize_site.kernel.models import Event
from runs.management.commands.runs import Command
from runs.management.commands.snapshots import Command as SnapshotsCommand
from runs.models import Run
from runs.operations import advance_run
from tests.factories import (
    claim_job,
    end_job,
    finish_analyses,
    make_base_model,
    make_dataset,
    make_device,
    make_workload,
    run_document,
    tell_job,
)
from tests.playing import STARTED, metrics, save

pytestmark = pytest.mark.django_db
SURFACES = ["web", "admin", "api", "command"]


@pytest.fixture(autouse=True)
def box(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make_device()
    make_workload("triage")
    make_dataset("triage/train")
    make_base_model()


class Web:
    """The new-run page, with a pasted descriptor."""

    def __init__(self, browser, tmp_path, capsys):
        self.browser = browser

    def submit(self, document):
        answer = self.browser.post("/runs/new", {"mode": "descriptor", "text": json.dumps(document)})
        return text_of(answer)

    def cancel(self, run_id):
        return text_of(self.browser.post(f"/runs/{run_id}/cancel"))

    def pause(self, run_id, checkpoint):
        return text_of(self.browser.post(f"/runs/{run_id}/pause", {"checkpoint": checkpoint}, follow=True))

    def resume(self, run_id):
        return text_of(self.browser.post(f"/runs/{run_id}/resume", follow=True))

    def pin(self, snapshot_id):
        return text_of(self.browser.post(f"/snapshots/{snapshot_id}/pin", follow=True))


class Admin(Web):
    """The admin's add page and its cancel action."""

    def submit(self, document):
        return text_of(self.browser.post("/admin/runs/run/add/", {"document": json.dumps(document)}, follow=True))

    def cancel(self, run_id):
        return self._act("run", "cancel", run_id)

    def pause(self, run_id, checkpoint):
        return self._act("run", {"save": "pause_saving", "latest": "pause_at_latest"}[checkpoint], run_id)

    def resume(self, run_id):
        return self._act("run", "resume", run_id)

    def pin(self, snapshot_id):
        return self._act("snapshot", "pin", snapshot_id)

    def _act(self, model, action, key):
        return text_of(self.browser.post(f"/admin/runs/{model}/", {"action": action, "_selected_action": [key]},
                                         follow=True))


class Api(Web):
    """The route, as a signed-in browser's script or a token would call it."""

    def submit(self, document):
        return self.browser.post("/v1/training/runs", json.dumps(document),
                                 content_type="application/json").content.decode()

    def cancel(self, run_id):
        return self._post(f"runs/{run_id}/cancel")

    def pause(self, run_id, checkpoint):
        return self._post(f"runs/{run_id}/pause", checkpoint=checkpoint)

    def resume(self, run_id):
        return self._post(f"runs/{run_id}/resume")

    def pin(self, snapshot_id):
        return self._post(f"snapshots/{snapshot_id}/pin")

    def _post(self, path, **body):
        return self.browser.post(f"/v1/training/{path}", json.dumps(body),
                                 content_type="application/json").content.decode()


class Commands(Web):
    """`./optimize runs start` and `cancel`."""

    def __init__(self, browser, tmp_path, capsys):
        self.folder, self.capsys = tmp_path, capsys

    def submit(self, document):
        (self.folder / "run.json").write_text(json.dumps(document))
        return self._run("start", "-f", str(self.folder / "run.json"), "--force")

    def cancel(self, run_id):
        return self._run("cancel", run_id, "--force")

    def pause(self, run_id, checkpoint):
        return self._run("pause", run_id, "--checkpoint", checkpoint)

    def resume(self, run_id):
        return self._run("resume", run_id)

    def pin(self, snapshot_id):
        return self._run("pin", snapshot_id, command=SnapshotsCommand)

    def _run(self, *words, command=Command):
        command().run(list(words))
        captured = self.capsys.readouterr()
        return captured.out + captured.err


def text_of(answer):
    """A page's words, as a person reads them."""
    return html.unescape(re.sub(r"\s+", " ", answer.content.decode()))


@pytest.fixture(params=SURFACES)
def surface(request, admin, tmp_path, capsys):
    kinds = {"web": Web, "admin": Admin, "api": Api, "command": Commands}
    return kinds[request.param](admin, tmp_path, capsys)


@pytest.mark.requirement("R002", "R003", "R011")
def test_a_submission_makes_the_same_run_and_the_same_events(surface):
    surface.submit(run_document())
    run = Run.objects.get()
    assert (run.phase, run.config_hash) == ("RESOLVING_DATASET", expected_hash())
    assert [event.type for event in Event.objects.filter(subject_kind="run")] == ["run.submitted"]


@pytest.mark.requirement("R011")
def test_a_refusal_has_the_same_sentence_and_makes_no_run(surface):
    said = surface.submit(run_document(config={"hyperparams": {"optimizer": {"weightDecay": -1}}}))
    assert "optimizer.weightDecay" in said
    assert REFUSAL in said
    assert not Run.objects.exists()


REFUSAL = "must not be negative"


@pytest.mark.requirement("R011", "R175")
def test_a_cancel_is_the_same_request(surface):
    surface.submit(run_document())
    run = Run.objects.get()
    surface.cancel(run.pk)
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    assert "run.cancel_requested" in [event.type for event in Event.objects.filter(subject_id=run.pk)]


@pytest.mark.requirement("R011", "R175")
def test_a_second_cancel_of_an_ended_run_is_refused_in_the_same_words(surface):
    surface.submit(run_document())
    run = Run.objects.get()
    Run.objects.filter(pk=run.pk).update(phase="CANCELLED")
    said = surface.cancel(run.pk)
    assert f"The run {run.pk[:12]} is" in said


@pytest.fixture
def training(surface):
    """A run at update 3 of its job, with a save there; and the job."""
    surface.submit(run_document())
    run = Run.objects.get()
    advance_run(run.pk)
    finish_analyses()
    advance_run(run.pk)
    attempt = claim_job()
    tell_job(attempt, STARTED, metrics(3), save(attempt, 3))
    return Run.objects.get(), attempt


def asked(run):
    return [event.type for event in Event.objects.filter(subject_kind="run", subject_id=run.pk).order_by("id")
            if event.type in {"run.pause_requested", "run.snapshot_pinned"}]


@pytest.mark.requirement("R283", "R284")
def test_a_pause_is_the_same_wish_and_its_refusals_have_the_same_words(surface, training):
    run, attempt = training
    surface.pause(run.pk, "latest")
    surface.pause(run.pk, "latest")
    run.refresh_from_db()
    assert (run.pause["checkpoint"], run.pause["state"], asked(run)) == ("latest", "requested", ["run.pause_requested"])
    assert "is already pausing with --checkpoint latest, not save" in surface.pause(run.pk, "save")
    assert "it is still pausing" in surface.resume(run.pk).lower()
    end_job(attempt, "stopped")
    assert f"The run {run.pk[:12]} is PAUSED already." in surface.pause(run.pk, "save")


@pytest.mark.requirement("R286")
def test_a_resume_is_the_same_request_and_a_second_one_is_refused(surface, training):
    run, attempt = training
    surface.pause(run.pk, "latest")
    end_job(attempt, "stopped")
    surface.resume(run.pk)
    run.refresh_from_db()
    assert (run.phase, run.pause) == ("AWAITING_CAPACITY", None)
    assert f"The run {run.pk[:12]} is AWAITING_CAPACITY, not PAUSED" in surface.resume(run.pk)


@pytest.mark.requirement("R011")
def test_a_pin_is_the_same_request(surface, training):
    run, _ = training
    snapshot = run.snapshots.get()
    surface.pin(snapshot.pk)
    surface.pin(snapshot.pk)
    snapshot.refresh_from_db()
    assert (snapshot.pinned, asked(run)) == (["trainingState", "weights"], ["run.snapshot_pinned"])


def expected_hash():
    from optimize_site.kernel.auth import LOCAL
    from runs.operations import check_run

    return check_run(run_document(), actor=LOCAL)["configHash"]
