"""The same request through web, admin, API and command: the same run, the same events, the same refusal."""

import html
import json
import re

import pytest

from optimize_site.kernel.models import Event
from runs.management.commands.runs import Command
from runs.models import Run
from tests.factories import make_base_model, make_dataset, make_device, make_workload, run_document

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


class Admin(Web):
    """The admin's add page and its cancel action."""

    def submit(self, document):
        return text_of(self.browser.post("/admin/runs/run/add/", {"document": json.dumps(document)}, follow=True))

    def cancel(self, run_id):
        return text_of(self.browser.post("/admin/runs/run/", {"action": "cancel", "_selected_action": [run_id]},
                                         follow=True))


class Api(Web):
    """The route, as a signed-in browser's script or a token would call it."""

    def submit(self, document):
        return self.browser.post("/v1/training/runs", json.dumps(document),
                                 content_type="application/json").content.decode()

    def cancel(self, run_id):
        return self.browser.post(f"/v1/training/runs/{run_id}/cancel", "{}",
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

    def _run(self, *words):
        Command().run(list(words))
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


def expected_hash():
    from optimize_site.kernel.auth import LOCAL
    from runs.operations import check_run

    return check_run(run_document(), actor=LOCAL)["configHash"]
