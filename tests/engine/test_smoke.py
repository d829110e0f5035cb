"""Smoke checks: a slice is trained until it is memorised, and then the model must say it again."""

import json

import jobs
import pytest
import tiny
from optimize_child.control import Control
from optimize_child.events import EventLog
from optimize_child.rendering.template import ChatTemplate

pytestmark = pytest.mark.filterwarnings("ignore")
SLICE = {"rows": 4, "threshold": 0.98}
TOOLS = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}]
WITH_TOOLS = "{% if tools %}{{ 'tools ' + tools | tojson + '\n' }}{% endif %}" + tiny.CHATML.replace(
    "message['content'] + ", "(message['content'] or '') + (message['tool_calls'] | tojson "
    "if message['tool_calls'] is defined and message['tool_calls'] else '') + "
)  # fmt: skip


def rows(count: int = 6) -> list[dict]:
    """Short questions with answers of their own."""
    words = zip(tiny.WORDS, reversed(tiny.WORDS), strict=True)
    return [
        {"messages": [{"role": "user", "content": one}, {"role": "assistant", "content": f"{other} {number}"}]}
        for number, (one, other) in enumerate(list(words)[:count])
    ]


@pytest.fixture
def check(tmp_path, base_model, write_rows):
    """Runs one smoke check over some rows."""
    made = iter(range(9))

    def check(given=None, base=base_model, **changes):
        number = next(made)
        path = write_rows(rows() if given is None else given, f"train-{number}.jsonl")
        plan = tiny.sft_plan(base, [path], **{
            "smoke": SLICE, "total_steps": 150, "config.hyperparams.optimizer.learningRate": 0.005,
            "config.hyperparams.lora.rank": 16, "config.hyperparams.scheduler.kind": "constant",
            "config.hyperparams.training.microBatchPerGpu": 4, "config.hyperparams.training.gradientAccumulation": 1,
        })  # fmt: skip
        return jobs.run(tmp_path / f"attempt-{number}", tiny.changed(plan, **changes))

    return check


def verdict(attempt) -> dict:
    (found,) = tiny.events_of(attempt, "smoke")
    return found


@pytest.mark.requirement("R194", "R195")
def test_a_run_that_memorises_its_slice_passes_before_its_updates_are_used_up_and_leaves_no_model(check):
    attempt = check()
    found = verdict(attempt)
    assert (found["verdict"], found["score"], found["memorised"]) == ("passed", 1.0, True)
    assert (found["rows"], found["scored"], found["reproduced"]) == (4, 4, 4)
    assert found["step"] == len(tiny.events_of(attempt, "metrics")) < 150
    assert tiny.events_of(attempt, "plan_size")[0]["rowsPerEpoch"] == 4
    assert not tiny.events_of(attempt, "missed")
    assert not tiny.events_of(attempt, "snapshot")
    assert "adapter" not in tiny.read_events(attempt)[-1]


@pytest.mark.requirement("R194")
def test_a_learning_rate_that_is_too_small_does_not_memorise_and_every_row_is_told_that_was_not_reproduced(check):
    attempt = check(total_steps=2, **{"config.hyperparams.optimizer.learningRate": 1e-7})
    found = verdict(attempt)
    assert (found["verdict"], found["reproduced"], found["memorised"]) == ("not_memorised_in_steps", 0, False)
    missed = tiny.events_of(attempt, "missed")
    assert [row["position"] for row in missed] == [0, 1, 2, 3]
    assert [row["expected"] for row in missed] == [row["messages"][-1]["content"] for row in rows(4)]
    assert all(row["answer"] != row["expected"] for row in missed)
    assert missed[0]["prompt"] == rows()[0]["messages"][:-1]


@pytest.mark.requirement("R194")
def test_rows_that_were_memorised_and_are_not_reproduced_fail(check, tokenizer):
    """A mask that leaves the answers' words out: what is trained is learned, and the answers never are."""
    chat, given = ChatTemplate(tokenizer), rows(4)
    for row in given:
        ((ids,), _) = chat.tokenize([chat.render(row["messages"])])
        row["mask"] = [0] * (len(ids) - 2) + [1] * 2
    found = verdict(check(given, **{"config.loss.explicitLossMaskColumn": "mask"}))
    assert (found["verdict"], found["memorised"]) == ("failed", True)


@pytest.mark.requirement("R197", "R198", "R340")
def test_only_text_answers_are_scored_and_their_prompts_are_those_of_training(tmp_path, monkeypatch, check):
    from optimize_child import smoke

    tiny.make_base_model(tmp_path / "base")
    tiny.make_tokenizer(template=WITH_TOOLS).save_pretrained(tmp_path / "base")
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    given = [row | {"tools": TOOLS} for row in rows(3)]
    given[1]["messages"][-1] = {"role": "assistant", "content": "", "tool_calls": [call]}
    asked = []
    monkeypatch.setattr(smoke, "answer_all", lambda model, prompts, *_, **__: asked.extend(prompts) or iter(()))
    monkeypatch.setattr(smoke, "wrong_tokens", lambda trainer, passes: 0)
    monkeypatch.setattr(smoke, "WORTH_READING", 0)
    trained = []
    read = smoke.SmokeRun.read_rows
    monkeypatch.setattr(smoke.SmokeRun, "read_rows", lambda run: (read(run), trained.extend(
        run.rows.row(index)[0].tolist() for index in (0, 2))))  # fmt: skip
    found = verdict(check(given, tmp_path / "base"))
    assert (found["rows"], found["scored"], found["toolAnswers"]) == (3, 2, 1)
    assert [row[: len(one.prompt)] for row, one in zip(trained, asked, strict=True)] == [one.prompt for one in asked]
    assert "lookup" in json.dumps([one.key.tools for one in asked])


@pytest.mark.requirement("R194")
@pytest.mark.parametrize(("ask", "ending", "verdicts"), [("pause", "finished", 1), ("drop", "stopped", 0),
                                                         ("stop", "stopped", 0)])  # fmt: skip
def test_a_pause_that_saves_lets_the_last_answers_come_and_every_other_wish_ends_the_scoring(
    check, monkeypatch, ask, ending, verdicts
):
    """Asked while the answers are read: there is nothing to save of a check, and a few answers are soon told."""
    reading = []
    said = EventLog.emit
    monkeypatch.setattr(EventLog, "emit", lambda self, type_, **fields: (
        reading.append(1) if fields.get("name") == "reproducing" else None, said(self, type_, **fields)))  # fmt: skip
    monkeypatch.setattr(Control, "reason_to_leave", lambda self: ask if reading else None)
    attempt = check(total_steps=3)
    last = tiny.read_events(attempt)[-1]
    assert (last["type"], last["step"], len(tiny.events_of(attempt, "smoke"))) == (ending, 3, verdicts)
    assert not tiny.events_of(attempt, "snapshot")
