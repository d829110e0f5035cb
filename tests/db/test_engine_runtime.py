"""What a run's newest attempt really runs with: kept part by part, shown by the route, the command and the page."""

import json

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL_SECRET
from runs.management.commands.runs import Command
from runs.operations import advance_run
from tests.factories import make_device, make_run
from tests.playing import STARTED, claim, end, reread, say
from tests.web.conftest import browser_of

pytestmark = pytest.mark.django_db
CHANGED = {"model.attentionImplementation": {"before": "sdpa", "after": "optimize_segments"}}
TRAINER = {"updates": 6, "updatesPerEpoch": 2, "computePath": {"kind": "plain", "reason": "dropout"},
           "changedBySetup": CHANGED}
MODEL = {"parametersByType": {"float32": 1000}, "trainableParameters": 10,
         "adaptedModules": ["layers.0.q_proj", "layers.1.q_proj"]}
ENGINE = {"engine": "vllm", "version": "9", "replica": 0, "dataParallelRank": 0, "contextLength": 512,
          "attentionBackends": ["FLASH_ATTN"], "kvCache": {"dtype": "auto", "tokens": 1600}, "memoryShare": 0.3,
          "eager": False, "multimodalProfiling": None}


def told(**parts):
    return {"type": "engine_runtime"} | parts


def memory(moment, size=2**30, process="trainer"):
    return {"moment": moment, "process": process, "hostBytes": size}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def run(db):
    make_device()
    found = make_run()
    advance_run(found.pk)
    return found


def ask(run):
    return Client().get(f"/v1/training/runs/{run.pk}/engine-runtime",
                        headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def test_it_is_not_found_until_a_job_has_started_and_its_parts_appear_as_they_are_told(run, capsys):
    assert (ask(run).status_code, ask(run).json()["code"]) == (404, "not_written")
    assert Command().run(["engine-runtime", run.pk]) == 4
    attempt = claim(run)
    say(run, attempt, STARTED | {"versions": {"torch": "2"}})
    assert ask(run).json() == {"runId": run.pk, "attempt": 1, "versions": {"torch": "2"}, "trainer": None,
                               "model": None, "rolloutEngine": None, "memory": []}
    say(run, attempt, told(memory=[memory("afterFirstStep")]), told(trainer=TRAINER, model=MODEL, rolloutEngine=[]))
    say(run, attempt, told(memory=[memory("afterLoad", 5), memory("afterLoad", 6, "rolloutEngine")]))
    say(run, attempt, told(rolloutEngine=[ENGINE], memory=[memory("afterLoad", 7)]))
    found = ask(run).json()
    assert (found["trainer"], found["model"], found["rolloutEngine"]) == (TRAINER, MODEL, [ENGINE])
    assert [(row["moment"], row["process"], row["hostBytes"]) for row in found["memory"]] == [
        ("afterLoad", "trainer", 7), ("afterLoad", "rolloutEngine", 6), ("afterFirstStep", "trainer", 2**30)]
    capsys.readouterr()


def test_the_earlier_attempts_record_stands_until_the_next_ones_job_has_started(run):
    attempt = claim(run)
    say(run, attempt, STARTED, told(trainer=TRAINER))
    end(run, attempt, "lost", exit={"code": None, "signal": 9})
    again = claim(reread(run))
    assert (ask(run).json()["attempt"], ask(run).json()["trainer"]) == (1, TRAINER)
    say(run, again, STARTED)
    assert (ask(run).json()["attempt"], ask(run).json()["trainer"]) == (2, None)


def test_the_command_and_the_page_show_it_in_words(run, capsys):
    say(run, claim(run), STARTED | {"versions": {"torch": "2"}},
        told(trainer=TRAINER, model=MODEL, rolloutEngine=[ENGINE], memory=[memory("afterLoad")]))
    assert not Command().run(["engine-runtime", run.pk])
    out = capsys.readouterr().out
    page = browser_of("viewer").get(f"/runs/{run.pk}?tab=settings").content.decode()
    for words in ("2 × q_proj", "plain: dropout", "optimize_segments", "FLASH_ATTN", "1,600 tokens", "1.0 GiB"):
        assert words in out, words
        assert words in page, words
    assert "after loading" in out and "After loading" in page
    assert not Command().run(["engine-runtime", run.pk, "--jq", ".trainer.changedBySetup"])
    assert json.loads(capsys.readouterr().out) == CHANGED


def test_a_page_says_when_there_will_be_a_record(run):
    assert b"Its job says so once it has started." in browser_of("viewer").get(f"/runs/{run.pk}?tab=settings").content
