"""`runs tensorboard`: a run's figures in a folder, newly while it trains, and TensorBoard over them."""

import json
import sys
from pathlib import Path

import pytest
from django.test import Client

from optimize_site.kernel import commands
from optimize_site.kernel.auth import LOCAL_SECRET
from runs.management import tensorboard_verbs
from runs.management.commands.runs import Command
from runs.models import Run
from runs.operations import advance_run
from tests.factories import make_device, make_run
from tests.playing import STARTED, claim, end, metrics, reread, say
from tests.unit.test_event_files import read

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path / "home"))


@pytest.fixture
def training(db):
    """A run at its update 2, and its attempt."""
    make_device()
    run = make_run()
    advance_run(run.pk)
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1, 2.0), metrics(2, 1.5))
    return reread(run), attempt


@pytest.fixture
def ask(capfd):
    def run(*words):
        status = Command().run([str(word) for word in words]) or 0
        return status, *capfd.readouterr()

    return run


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A `tensorboard` on PATH that does what it is told, and says with what it was started."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(body):
        path = folder / "tensorboard"
        path.write_text(f"#!{sys.executable}\nimport sys, time\nprint(*sys.argv[1:])\nsys.stdout.flush()\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return make


def over(run):
    Run.objects.filter(pk=run.pk).update(phase="CANCELLED", lease_token=None)


def api():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def losses(folder, run):
    (file,) = (Path(folder) / run.pk[:12]).iterdir()
    return read(file.read_bytes())["train/loss"]


def test_the_figures_are_mirrored_until_the_run_is_over_and_no_tensorboard_is_needed(
        training, ask, tmp_path, monkeypatch):
    run, attempt = training
    rests = []

    def rest(seconds):
        rests.append(seconds)
        if len(rests) == 1:
            assert losses(tmp_path / "board", run) == {1: 2.0, 2: 1.5}
            say(run, attempt, metrics(3, 1.0))
        else:
            over(run)

    monkeypatch.setattr(tensorboard_verbs.time, "sleep", rest)
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, err = ask("tensorboard", run.pk[:12], "--dir", tmp_path / "board", "--sync-only", "-o", "json")
    found = json.loads(out)
    assert (status, found["runId"], found["step"], found["phase"]) == (0, run.pk, 3, "CANCELLED")
    assert found["dir"] == str(tmp_path / "board") and "url" not in found
    assert losses(found["dir"], run) == {1: 2.0, 2: 1.5, 3: 1.0}
    assert "Cancelled" in err


def test_an_attempt_that_trains_updates_again_replaces_them_in_the_mirror(training, ask, tmp_path, monkeypatch):
    run, attempt = training

    def rest(_):
        if reread(run).num_attempts == 1:
            end(run, attempt, "lost", exit={"code": None, "signal": 9})
            again = claim(reread(run))
            say(run, again, STARTED, metrics(1, 20.0))
        else:
            over(run)

    monkeypatch.setattr(tensorboard_verbs.time, "sleep", rest)
    assert ask("tensorboard", run.pk, "--dir", tmp_path, "--sync-only")[0] == 0
    assert losses(tmp_path, run) == {1: 20.0}


def test_without_a_tensorboard_on_the_path_nothing_begins_and_it_says_what_to_install(
        training, ask, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, err = ask("tensorboard", training[0].pk, "--dir", tmp_path / "board")
    assert status == 3 and "There is no `tensorboard` on PATH." in err
    assert "pip install tensorboard" in err and "--sync-only" in err
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(training, ask, program, port):
    program("")
    assert ask("tensorboard", training[0].pk, "--port", port)[0] == 2


def test_tensorboard_is_started_over_the_folder_and_the_command_ends_with_it(training, ask, program, tmp_path):
    run, _ = training
    over(run)
    program("")
    status, out, err = ask("tensorboard", run.pk, "--dir", tmp_path / "board", "--port", "7007", "-o", "json")
    assert (status, json.loads(out)["url"]) == (0, "http://localhost:7007")
    assert f"--logdir {tmp_path / 'board'} --port 7007" in err


def test_a_tensorboard_that_fails_is_told_with_what_it_said(training, ask, program, tmp_path):
    run, _ = training
    over(run)
    program("print('Address in use'); sys.exit(3)")
    status, _, err = ask("tensorboard", run.pk, "--dir", tmp_path / "board")
    assert status == 3 and "Address in use" in err and "TensorBoard ended with status 3" in err


def test_tensorboard_ends_with_the_command(training, program, tmp_path, monkeypatch, capfd):
    run, _ = training
    program("time.sleep(60)")
    started = []

    def interrupted(process):
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(tensorboard_verbs, "_rest", interrupted)
    assert Command().run(["tensorboard", run.pk, "--dir", str(tmp_path / "board")]) == 130
    assert started[0].returncode is not None
    capfd.readouterr()


def test_another_boxs_run_is_mirrored_over_its_api(training, ask, tmp_path, monkeypatch):
    run, _ = training
    over(run)
    asked = []
    get = commands.Client.get

    def telling(self, path, **query):
        asked.append((path, query))
        return get(self, path, **query)

    monkeypatch.setattr(commands.Client, "get", telling)
    ask("tensorboard", run.pk, "--dir", tmp_path, "--sync-only")
    route = f"/v1/training/runs/{run.pk}"
    assert asked == [(route, {}), (f"{route}/metrics", {"fromStep": 0})]


def test_the_event_file_is_a_download_of_the_api(training):
    run, _ = training
    answer = api().get(f"/v1/training/runs/{run.pk}/tensorboard")
    assert answer.status_code == 200
    assert "events.out.tfevents." in answer["Content-Disposition"]
    assert read(b"".join(answer.streaming_content))["train/loss"] == {1: 2.0, 2: 1.5}


def test_the_figures_from_an_update_on_are_read_alone(training):
    run, _ = training
    found = api().get(f"/v1/training/runs/{run.pk}/metrics?fromStep=2").json()
    assert [row["step"] for row in found["metrics"]] == [2]
    assert found["total"] == 2
