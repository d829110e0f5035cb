"""A pipeline started, cancelled and taken up again through web, admin, API and command: the same, word for word."""

import html
import json
import re

import pytest

from evaluations.management.commands.pipelines import Command
from evaluations.models import Pipeline
from evaluations.operations.pipelines import advance_pipelines
from optimize_site.kernel.models import Event
from tests import factories as make
from tests.web import scenes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]
SURFACES = ["web", "admin", "api", "command"]
JSON = "application/json"


@pytest.fixture(autouse=True)
def box(db):
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(12)
    make.measured(f"{scenes.WORKLOAD}/train", f"{scenes.WORKLOAD}/eval", repository=scenes.BASE)


@pytest.fixture(params=SURFACES)
def surface(request, admin, tmp_path, capsys):
    """`surface(verb, document or pipeline)` asks and gives what was said."""
    return {"web": _web, "admin": _admin, "api": _api, "command": _command}[request.param](admin, tmp_path, capsys)


def _web(browser, *_):
    def ask(verb, what):
        path, body = ("new", {"text": json.dumps(what)}) if verb == "start" else (f"{what.pk}/{verb}", {})
        return _text(browser.post(f"/pipelines/{path}", body, follow=True))

    return ask


def _admin(browser, *_):
    def ask(verb, what):
        path, body = ("add/", {"document": json.dumps(what)}) if verb == "start" else (
            "", {"action": verb, "_selected_action": [what.pk]})
        return _text(browser.post(f"/admin/evaluations/pipeline/{path}", body, follow=True))

    return ask


def _api(browser, *_):
    def ask(verb, what):
        path, body = ("", what) if verb == "start" else (f"/{what.pk}/{verb}", {})
        return browser.post(f"/v1/training/pipelines{path}", json.dumps(body), content_type=JSON).content.decode()

    return ask


def _command(_, folder, capsys):
    def ask(verb, what):
        if verb == "start":
            (folder / "pipeline.json").write_text(json.dumps(what))
            Command().run(["start", "-f", str(folder / "pipeline.json")])
        else:
            Command().run([verb, what.pk, *(["--force"] if verb == "cancel" else [])])
        said = capsys.readouterr()
        return said.out + said.err

    return ask


def _text(answer):
    return html.unescape(re.sub(r"\s+", " ", answer.content.decode()))


@pytest.fixture
def started(surface):
    surface("start", scenes.pipeline_document())
    advance_pipelines()
    return Pipeline.objects.get()


def told(pipeline):
    return [event.type for event in Event.objects.filter(subject_id=pipeline.pk).order_by("id")]


@pytest.mark.requirement("R011", "R034")
def test_a_start_makes_the_same_pipeline_and_its_first_stage(started):
    assert (started.phase, [stage.name for stage in started.stages.order_by("position")]) == (
        "RUNNING", ["first", "judge", "longer"])
    assert started.stages.get(name="first").run.pipeline_id == started.pk
    assert told(started)[0] == "pipeline.started"


@pytest.mark.requirement("R011")
def test_a_refusal_names_the_stage_in_the_same_words_and_makes_none(surface):
    stages = [{"name": "judge", "type": "evaluate", "model": "@nothing", "dataset": f"{scenes.WORKLOAD}/eval"}]
    said = surface("start", scenes.pipeline_document() | {"stages": stages})
    assert "no earlier stage is called so" in said
    assert not Pipeline.objects.exists()


@pytest.mark.requirement("R011", "R034")
def test_a_cancel_and_being_taken_up_again_are_the_same_requests_with_the_same_refusals(surface, started):
    surface("cancel", started)
    started.refresh_from_db()
    assert started.phase == "CANCELLED"
    assert f"The pipeline {started.pk[:12]} is CANCELLED; there is nothing to cancel." in surface("cancel", started)
    surface("resume", started)
    started.refresh_from_db()
    assert (started.phase, told(started)[-1]) == ("RUNNING", "pipeline.running")
    Pipeline.objects.filter(pk=started.pk).update(phase="COMPLETED")
    assert f"The pipeline {started.pk[:12]}" in surface("resume", started)
    assert Pipeline.objects.get().phase == "COMPLETED"
