"""A model held as judge: what it answers over its socket, and what it does not."""

import json
import socket
import threading

import jobs
import pytest
import tiny
from optimize_child.failures import Stopped
from optimize_child.job import Job
from optimize_child.judge import JudgeModel, run
from optimize_child.rendering import template
from optimize_child.rendering.template import TemplateRefused

pytestmark = pytest.mark.filterwarnings("ignore")


def plan_of(base_model, **changes):
    return {
        "version": 1,
        "entry": "judge",
        "attempt": "a" * 64,
        "subject": {"kind": "judge", "id": "e" * 64},
        "threads": 1,
        "device": {"kind": "cpu", "uuids": []},
        "base_model": {"folder": str(base_model), "revision": "r1", "repository": "test/tiny"},
        "adapter": None,
        "socket": "",
        "asked": None,
        "max_new_tokens": 6,
        "max_prompt_tokens": None,
        "batch_size": 4,
        **changes,
    }


def question(text, system="Judge."):
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": text}]}


class Sitting:
    """A judge in a thread of its own, and one connection to it."""

    def __init__(self, folder, plan):
        self.folder = jobs.prepare(folder, plan)
        jobs.control(self.folder)
        self.path = plan["socket"]
        self.job = Job(self.folder)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            run(self.job)
        except Stopped as stopped:
            self.job.events.emit("stopped", reason=stopped.reason)

    def ask(self, *lines):
        """What came back to some lines, until the judge hangs up or every request is done."""
        jobs.wait_for(lambda: any(event["name"] == "judging" for event in tiny.events_of(self.folder, "stage")))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            connection.settimeout(60)
            connection.sendall(b"".join(lines))
            read = connection.makefile("rb")
            found, done = [], 0
            while done < len(lines) and (line := read.readline()):
                found.append(json.loads(line))
                done += "done" in found[-1]
        return found

    def end(self):
        jobs.control(self.folder, ask="stop")
        self.thread.join(60)
        assert not self.thread.is_alive()


def line(number, *items):
    return json.dumps({"id": number, "items": items}).encode() + b"\n"


@pytest.fixture
def sit(tmp_path, base_model, monkeypatch):
    """Starts a judge; it has ended when the test has."""
    monkeypatch.setattr(template.signal, "signal", lambda *_: None)  # a thread of a test may set no alarm
    monkeypatch.setattr(template.signal, "setitimer", lambda *_: None)
    sitting = []

    def sit(**changes):
        sitting.append(Sitting(tmp_path / "a", plan_of(base_model, socket=str(tmp_path / "j.sock"), **changes)))
        return sitting[0]

    yield sit
    for one in sitting:
        one.end()


def test_a_judge_answers_every_item_of_a_request_and_the_same_each_time(sit):
    judge = sit()
    items = [question(text) for text in ("ok", "a longer thing to judge", "x")]
    first, second = judge.ask(line(7, *items)), judge.ask(line(8, *items))
    assert [reply["id"] for reply in first] == [7] * 4
    assert first[-1] == {"id": 7, "done": True}
    assert sorted(reply["index"] for reply in first[:-1]) == [0, 1, 2]
    for reply in first[:-1]:
        assert reply["finish"] in {"stop", "length"}
        assert reply["promptTokens"] > 0
        assert reply["completionTokens"] <= 6
    words = [{reply["index"]: reply["answer"] for reply in replies[:-1]} for replies in (first, second)]
    assert words[0] == words[1]


def test_an_item_too_long_to_read_is_told_and_the_others_are_answered(sit):
    found = sit(max_prompt_tokens=40).ask(line(1, question("short"), question("much too long " * 60)))
    assert {reply["index"]: reply.get("cause") for reply in found[:-1]} == {0: None, 1: "prompt_too_long"}


def test_who_does_not_keep_to_the_protocol_is_let_go_and_the_judge_goes_on(sit):
    judge = sit()
    for bad in (b"no json\n", b'{"id": 1}\n', line(1, {"messages": []}), line(1, {"messages": [{"role": 1}]})):
        (found,) = judge.ask(bad)
        assert found["error"].startswith("not a request")
    assert judge.ask(line(2, question("still there?")))[-1] == {"id": 2, "done": True}


def test_a_judge_leaves_when_it_is_told_to_and_takes_its_socket_with_it(sit, tmp_path):
    judge = sit()
    judge.ask(line(1, question("one")))
    judge.end()
    *_, counted, last = tiny.read_events(judge.folder)
    assert last["type"] == "stopped"
    assert (counted["name"], counted["done"]) == ("judging", 1)
    assert counted["peak_memory_bytes"] > 1e6
    assert not (tmp_path / "j.sock").exists()


def test_a_judge_may_be_asked_once_without_a_socket(tmp_path, base_model):
    attempt = jobs.run(tmp_path / "a", plan_of(base_model, asked=[question("a"), question("b")]))
    (finished,) = tiny.events_of(attempt, "finished")
    assert sorted(answer["index"] for answer in finished["report"]["answers"]) == [0, 1]


def test_a_template_without_a_system_role_reads_the_instructions_before_the_question(tmp_path, base_model):
    model = JudgeModel(plan_of(base_model))
    whole = model.template.render

    def without_system(messages, tools=None, *, to_answer=False):
        if messages[0]["role"] == "system":
            raise TemplateRefused("no system role")
        return whole(messages, tools, to_answer=to_answer)

    model.template.render = without_system
    said = model.tokenizer.decode(model._tokens(question("What?", system="Be strict.")["messages"]))
    assert said.index("Be strict.") < said.index("What?")


def test_a_trained_judge_judges_with_its_adapter(tmp_path, base_model):
    rows = tiny.ticket_rows(32)
    for row in rows:
        row["messages"][-1]["content"] = "0.75"
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trained = jobs.run(tmp_path / "trained", tiny.sft_plan(base_model, [path], **{
        "config.hyperparams.training.epochs": 6, "config.hyperparams.optimizer.learningRate": 0.02,
    }))  # fmt: skip
    adapter = trained / tiny.events_of(trained, "finished")[0]["adapter"]
    asked = [{"messages": row["messages"][:-1]} for row in rows[:3]]
    attempt = jobs.run(tmp_path / "a", plan_of(base_model, adapter=str(adapter), asked=asked))
    answers = tiny.events_of(attempt, "finished")[0]["report"]["answers"]
    assert [answer["answer"] for answer in answers] == ["0.75"] * 3
