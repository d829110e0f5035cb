"""`runs preview` on every surface, with a job that is played: what it is asked, what is shown, what is refused."""

import json

import pytest

from datasets.models import ExampleSet
from gpu_worker.short_jobs import ShortJobRunner
from optimize_site.kernel import short_jobs
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import InvalidInput, Refused, Unavailable
from registry.models import BaseModel
from runs.errors import RunRefused
from runs.management.commands.runs import Command
from runs.operations.preview import preview_descriptor, preview_run
from tests import factories as make

pytestmark = pytest.mark.django_db
TOKENS = {"ids": [1, 7, 9, 2], "pieces": ["<s>", "hello", " wor", "ld"], "mask": [0, 0, 1, 1], "special": [1, 0, 0, 0]}
SHOWN = {
    "chatTemplateSha256": "1" * 64, "maxSeqLength": 2048, "truncation": "oldest", "packing": True, "problem": None,
    "isShortened": False, "sequences": [[1]], "rows": [
        {"row": 1, "place": "line 1", "state": "trained", "tokens": 4, "trainedTokens": 2, "isCut": False,
         "turnsRemoved": 2, **TOKENS},
        {"row": 2, "place": "line 2", "state": "refused", "code": "bad_row", "reason": "1 row \x1b[31mis bad.", "hint":
         "Mend it."}]}


class Played:
    """Answers as the job would, and keeps what it was asked."""

    def __init__(self):
        self.plans = []

    def run(self, plan, *, kind, **_):
        self.plans.append(plan)
        return {"preview": SHOWN}


@pytest.fixture
def job(monkeypatch):
    played = Played()
    monkeypatch.setattr(short_jobs, "_jobs", played)
    return played


@pytest.fixture
def box(tmp_path, monkeypatch, job):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    for name in ("OPTIMIZE_CONTEXT", "AKKA_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    make.make_device()
    make.make_workload()
    make.make_dataset("triage/train", 16)
    make.make_base_model(facts={"chatTemplateSha256": "1" * 64})


@pytest.fixture
def descriptor(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(make.run_document(config={"data": {"truncation": "oldest", "packing": True}})))
    return path


def test_a_descriptors_preview_asks_for_its_rows_under_its_resolved_configuration(box, job):
    document = make.run_document(config={"data": {"truncation": "oldest"}, "maxSeqLength": 512})
    found = preview_descriptor(document, rows=7, actor=LOCAL)
    (plan,) = job.plans
    assert (plan["entry"], plan["rows"]) == ("preview", 7)
    assert (plan["config"]["maxSeqLength"], plan["config"]["data"]["truncation"]) == (512, "oldest")
    assert plan["base_model"]["chat_template_sha256"] == "1" * 64
    assert plan["dataset"]["num_examples"] == 16
    assert (found["dataset"], found["exampleCount"], found["rows"]) == ("triage/train:v1", 16, SHOWN["rows"])


def test_a_submitted_runs_preview_is_under_its_own_configuration(box, job):
    run = make.make_run(config={"maxSeqLength": 300})
    preview_run(run, actor=LOCAL)
    assert job.plans[0]["config"] == run.config


def test_a_descriptor_that_would_be_refused_has_the_same_refusal_and_no_job(box, job):
    with pytest.raises(RunRefused, match=r"data\.truncation is right without an explicit mask"):
        preview_descriptor(make.run_document(config={"data": {"truncation": "right"}}), actor=LOCAL)
    assert job.plans == []


@pytest.mark.parametrize("rows", [0, -1, 21])
def test_a_number_of_rows_that_cannot_be_shown_is_refused_with_the_limit(box, rows):
    with pytest.raises(InvalidInput, match=f"rows is {rows}; a preview shows 1 to 20 rows"):
        preview_descriptor(make.run_document(), rows=rows, actor=LOCAL)


def test_a_base_model_that_is_not_prepared_cannot_make_tokens_and_one_that_moved_makes_others(box):
    run = make.make_run()
    run.references["baseModel"]["revision"] = "rev-0"
    with pytest.raises(Refused, match="at rev-0, and the box now holds rev-1"):
        preview_run(run, actor=LOCAL)
    BaseModel.objects.update(phase="PENDING")
    with pytest.raises(Refused, match="is not prepared yet"):
        preview_run(make.make_run(), actor=LOCAL)


def test_a_dataset_with_images_names_where_they_lie(box, job):
    run = make.make_run()
    ExampleSet.objects.update(details={"images": [{"path": "a.png", "sha256": "f" * 64, "bytes": 1}]})
    preview_run(run, actor=LOCAL)
    assert job.plans[0]["dataset"]["images"]["a.png"].endswith("f" * 64)


def test_the_routes_give_the_rows_and_the_problem_documents(box, client, job):
    client.force_login(_person())
    sent = client.post("/v1/training/runs/preview?rows=2", json.dumps(make.run_document()),
                       content_type="application/json")
    assert (sent.status_code, sent.json()["rows"][0]["mask"]) == (200, [0, 0, 1, 1])
    run = make.make_run()
    assert client.get(f"/v1/training/runs/{run.pk[:12]}/preview").json()["sequences"] == [[1]]
    assert client.get(f"/v1/training/runs/{run.pk}/preview?rows=99").json()["code"] == "invalid_input"
    assert client.get("/v1/training/runs/ffff/preview").status_code == 404
    malformed = client.post("/v1/training/runs/preview", "{", content_type="application/json")
    assert malformed.status_code == 400


def _person():
    from optimize_site.kernel.models import User

    return User.objects.create_user("ada", password="x", role="viewer")


def test_the_command_marks_the_trained_text_and_lists_tokens_when_asked(box, descriptor, capsys):
    assert Command().run(["preview", "-f", str(descriptor), "--rows", "2"]) == 0
    said = capsys.readouterr().out
    assert "Row 1 (line 1): 4 tokens, 2 trained, without its 2 oldest turns" in said
    assert "<s>hello[[ world]]" in said
    assert "Row 2 (line 2): refused. 1 row \N{REPLACEMENT CHARACTER}[31mis bad. Mend it." in said
    assert "Packed among themselves: 1." in said
    run = make.make_run()
    assert Command().run(["preview", run.pk[:12], "--tokens"]) == 0
    assert "     2  trained        9  ' wor'" in capsys.readouterr().out


@pytest.mark.parametrize(("shown", "said"), [
    ({"state": "prompt", "mask": [0] * 4}, "Row 1 (line 1): a prompt of 4 tokens"),
    ({"answer": "rejected"}, "Row 1 (line 1, rejected): 4 tokens, 2 trained")])
def test_prompts_and_both_answers_of_a_pair_are_shown(box, job, monkeypatch, capsys, descriptor, shown, said):
    row = SHOWN["rows"][0] | {"turnsRemoved": 0} | shown
    completion = 256 if shown.get("state") else None
    monkeypatch.setitem(SHOWN, "maxCompletionLength", completion)
    monkeypatch.setitem(SHOWN, "rows", [row])
    assert Command().run(["preview", "-f", str(descriptor)]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert ("a completion has at most 256 tokens" in printed) is (completion is not None)
    assert "hello" in printed


def test_reinforcement_runs_and_preference_runs_are_previewed_under_their_configuration(box, job):
    preview_descriptor(make.run_document(config={"method": "grpo"}), actor=LOCAL)
    assert job.plans[0]["config"]["rlHyperparams"]["maxCompletionLength"] == 256


@pytest.mark.parametrize("words", [["preview"], ["preview", "abc", "-f", "x.json"]])
def test_the_command_wants_a_run_or_a_file(box, words, capsys):
    assert Command().run(words) == 2
    assert "give RUN or -f FILE" in capsys.readouterr().err


# The job that a request waits for ------------------------------------------------------------------------------------


@pytest.fixture
def short(tmp_path, monkeypatch):
    """Runs a short job whose process is played: it writes these events, and its end."""
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    monkeypatch.setattr("gpu_worker.short_jobs.TURN_SECONDS", 0.0)

    def run(*events, ends=True):
        def start(folder):
            assert json.loads((folder / "plan.json").read_text())["threads"] == 1
            (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
            if ends:
                (folder / "exit.json").write_text("{}")
            return 1

        base = {"folder": "/m", "revision": "r", "repository": "x/y"}
        plan = {"entry": "preview", "base_model": base, "dataset": {"files": []}, "config": {}, "rows": 1}
        try:
            return ShortJobRunner(start).run(plan, kind="preview", seconds=0.05)
        finally:
            assert list((tmp_path / "short-jobs").iterdir()) == []

    return run


def test_a_short_job_gives_its_last_word_and_leaves_nothing_behind(short):
    assert short({"type": "started"}, {"type": "finished", "preview": {"rows": []}})["preview"] == {"rows": []}


def test_a_short_jobs_refusal_is_the_requests(short):
    with pytest.raises(Refused) as refused:
        short({"type": "failure", "code": "data_error", "reason": "No.", "hint": "Mend it."})
    assert (refused.value.code, refused.value.detail, refused.value.hint) == ("data_error", "No.", "Mend it.")


@pytest.mark.parametrize(("events", "ends", "words"), [
    ([{"type": "failure", "code": "unexpected", "reason": "Boom.", "hint": ""}], True, "ended without an answer. Boom"),
    ([], True, "ended without an answer"), ([{"type": "started"}], False, "did not finish within")])
def test_a_short_job_that_does_not_answer_is_no_refusal_of_the_data(short, events, ends, words):
    with pytest.raises(Unavailable, match=words):
        short(*events, ends=ends)


def test_short_jobs_take_turns(short, tmp_path):
    import fcntl

    (tmp_path / "run").mkdir()
    (tmp_path / "short-jobs").mkdir()
    with (tmp_path / "run" / "preview.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="Another preview is being made"):
            short({"type": "finished"})
