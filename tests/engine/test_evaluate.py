"""Answering rows: the same words as the library's own generation, in fewer steps."""

import json

import jobs
import pytest
import tiny
import torch
from optimize_child.answering.answers import Asked, Limits, _generate, answer_all, shared_prefix
from optimize_child.bases.models import load_model
from optimize_child.reading.questions import question_of
from optimize_child.rendering.template import ChatTemplate
from test_masks import call, say, stock

pytestmark = pytest.mark.filterwarnings("ignore")
ANSWER = "billing high"


@pytest.fixture(scope="module")
def adapter(base_model, tmp_path_factory):
    """An adapter that has learned one answer to everything, which a random model can learn in seconds."""
    folder = tmp_path_factory.mktemp("trained")
    path = folder / "train.jsonl"
    rows = tiny.ticket_rows(32)
    for row in rows:
        row["messages"][-1]["content"] = ANSWER
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = tiny.sft_plan(base_model, [path], **{
        "config.hyperparams.training.epochs": 6, "config.hyperparams.optimizer.learningRate": 0.02,
    })  # fmt: skip
    attempt = jobs.run(folder / "a", plan)
    return attempt / tiny.events_of(attempt, "finished")[0]["adapter"]


@pytest.fixture
def answer(runs_of):
    """Runs one evaluation over some rows."""
    return runs_of([], tiny.evaluation_plan)


def answers(attempt) -> dict:
    return {event["position"]: event for event in tiny.events_of(attempt, "answer")}


def prompts_of(tokenizer, rows) -> list[list[int]]:
    chat = ChatTemplate(tokenizer)
    return [chat.tokenize([chat.render(row["messages"][:-1], to_answer=True)])[0][0] for row in rows]


@pytest.mark.requirement("R327")
def test_every_row_is_answered_and_says_under_which_template_and_revision(answer, tokenizer):
    rows = tiny.ticket_rows(7)
    attempt = answer(rows)
    found = answers(attempt)
    assert sorted(found) == list(range(7))
    assert found[3]["expected"] == rows[3]["messages"][-1]["content"]
    assert found[3]["prompt"] == rows[3]["messages"][:-1]
    assert {event["chat_template_sha256"] for event in found.values()} == {ChatTemplate(tokenizer).sha256}
    assert {event["base_model_revision"] for event in found.values()} == {"r1"}
    assert tiny.read_events(attempt)[-1]["answers"] == 7


@pytest.mark.requirement("R322")
def test_arguments_written_as_a_string_are_asked_as_the_object_they_hold():
    def row(arguments):
        function = {"name": "track", "arguments": arguments}
        calling = {"role": "assistant", "tool_calls": [call() | {"function": function}]}
        told = {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "in Lyon"}
        return {"messages": [*say("where is it"), calling, told, {"role": "assistant", "content": "In Lyon."}]}

    chat = stock("qwen2.5")
    as_text, as_object = (question_of(chat, 0, row(value)) for value in ('{"parcel": 7}', {"parcel": 7}))
    assert as_text.tokens == as_object.tokens
    assert "parcel" in chat.tokenizer.decode(as_text.tokens)


@pytest.mark.parametrize("system", [tiny.SYSTEM, None], ids=["shared system prompt", "none"])
@pytest.mark.parametrize("slots", [1, 3, 16])
def test_answers_equal_the_librarys_own_generation(base_model, tokenizer, system, slots):
    model = load_model(base_model, device="cpu").eval()
    prompts = prompts_of(tokenizer, tiny.ticket_rows(9, system=system))
    limits = Limits(frozenset({tokenizer.eos_token_id}), 10)
    ours = {
        asked.key: asked
        for asked in answer_all(model, [Asked(i, p) for i, p in enumerate(prompts)], limits, slots=slots)
    }
    with torch.inference_mode():
        theirs = {
            asked.key: asked for asked in _generate(model, [Asked(i, p) for i, p in enumerate(prompts)], limits, 2)
        }
    assert {key: asked.answer for key, asked in ours.items()} == {key: asked.answer for key, asked in theirs.items()}
    assert {key: asked.finish for key, asked in ours.items()} == {key: asked.finish for key, asked in theirs.items()}


def test_a_trained_adapter_answers_and_stops_by_itself(answer, adapter):
    attempt = answer(tiny.ticket_rows(8, seed=5), **{
        "systems": [{"name": "candidate", "adapter": str(adapter)}], "max_new_tokens": 40,
    })  # fmt: skip
    found = answers(attempt)
    assert {event["answer"] for event in found.values()} == {ANSWER}
    assert {event["finish"] for event in found.values()} == {"stop"}


def test_the_merged_adapter_is_compared_with_the_unmerged_on_five_rows(answer, adapter):
    systems = [{"name": "candidate", "adapter": str(adapter)}]
    merged = answer(tiny.ticket_rows(8), systems=systems)
    (check,) = tiny.events_of(merged, "check")
    assert (check["name"], check["passed"]) == ("merge_parity", True)
    assert check["value"] <= check["bound"]
    assert check["detail"].startswith("5 rows")
    unmerged = answer(tiny.ticket_rows(8), systems=systems, merge=False)
    assert not tiny.events_of(unmerged, "check")
    assert [event["answer"] for _, event in sorted(answers(merged).items())] == [
        event["answer"] for _, event in sorted(answers(unmerged).items())
    ]


def test_a_merge_that_changes_answers_is_not_used(answer, adapter, monkeypatch):
    monkeypatch.setitem(__import__("optimize_child.evaluate").evaluate.PARITY_BOUND, "cpu", -1.0)
    systems = [{"name": "candidate", "adapter": str(adapter)}]
    attempt = answer(tiny.ticket_rows(8), systems=systems)
    assert tiny.events_of(attempt, "check")[0]["passed"] is False
    assert tiny.events_of(attempt, "warning")[0]["code"] == "answers_unmerged"
    plain = answer(tiny.ticket_rows(8), systems=systems, merge=False)
    assert {p: e["answer"] for p, e in answers(attempt).items()} == {p: e["answer"] for p, e in answers(plain).items()}


def test_a_trial_shows_the_base_model_and_the_candidate_side_by_side(answer, adapter):
    question = {"messages": tiny.ticket_rows(1, seed=3)[0]["messages"][:-1]}
    attempt = answer(**{
        "rows.inline": [question],
        "systems": [{"name": "candidate", "adapter": str(adapter)}, {"name": "base", "adapter": None}],
        "max_new_tokens": 40,
    })  # fmt: skip
    found = {event["system"]: event for event in tiny.events_of(attempt, "answer")}
    assert set(found) == {"base", "candidate"}
    assert found["candidate"]["answer"] == ANSWER
    assert found["base"]["answer"] != ANSWER
    assert found["base"]["expected"] is None


@pytest.mark.requirement("R342")
def test_a_retry_answers_only_what_is_missing(answer):
    rows = tiny.ticket_rows(6)
    assert sorted(answers(answer(rows, skip_positions=[0, 2, 5]))) == [1, 3, 4]
    assert answers(answer(rows, skip_positions=list(range(6)))) == {}


@pytest.mark.requirement("R339")
def test_prompts_carry_the_tools_the_row_offers(answer, base_model, tmp_path):
    tool = {"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}
    with_tools = (
        "{% if tools %}{{ '<|im_start|>tools ' + tools[0].function.name + '<|im_end|>' }}{% endif %}" + tiny.CHATML
    )
    folder = tiny.make_base_model(tmp_path / "tools-base")
    (folder / "chat_template.jinja").write_text(with_tools)
    row = tiny.ticket_rows(1)[0]
    attempt = answer([row, {**row, "tools": [tool]}], **{"base_model.folder": str(folder)})
    found = answers(attempt)
    assert found[1]["prompt_tokens"] > found[0]["prompt_tokens"]
    assert found[1]["tools"] == [tool]
    assert "tools" not in found[0]


@pytest.mark.requirement("R341")
def test_a_row_whose_answer_calls_tools_is_refused_by_its_line(answer):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}
    row = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": [call]}]}
    failed = jobs.failure(answer([*tiny.ticket_rows(1), row]))
    assert failed["code"] == "bad_row"
    assert "line 2: the row's answer calls tools" in failed["reason"]


@pytest.mark.requirement("R324")
def test_rows_that_the_registry_would_refuse_are_refused_by_their_lines(answer):
    unanswered = {"messages": [{"role": "user", "content": "a"}]}
    failed = jobs.failure(answer([unanswered, *tiny.ticket_rows(1), {"messages": []}]))
    assert failed["code"] == "bad_row"
    assert [row["line"] for row in failed["evidence"]["rows"]] == ["line 1", "line 3"]
    assert "line 3: messages: " in failed["reason"]


def test_a_prompt_longer_than_the_limit_is_told_and_not_asked(answer):
    rows = tiny.ticket_rows(3)
    longest = max(event["prompt_tokens"] for event in answers(answer(rows)).values())
    found = answers(answer(rows, max_prompt_tokens=longest - 1))
    refused = [event for event in found.values() if event["finish"] == "prompt_too_long"]
    assert len(found) == 3
    assert len(refused) >= 1
    assert refused[0]["answer"] is None


def test_a_base_model_with_another_template_than_expected_is_refused(answer):
    failed = jobs.failure(answer(tiny.ticket_rows(1), **{"base_model.chat_template_sha256": "0" * 64}))
    assert failed["code"] == "base_model_refused"


def test_an_evaluation_stops_when_it_is_told_to(answer, tmp_path, monkeypatch):
    from optimize_child.control import Control

    seen = iter([None] * 4)
    monkeypatch.setattr(Control, "reason_to_leave", lambda _self: next(seen, "stop"))
    attempt = answer(tiny.ticket_rows(9))
    assert tiny.read_events(attempt)[-1]["type"] == "stopped"
    assert 0 < len(answers(attempt)) < 9


def test_the_number_of_rows_at_once_is_measured_where_none_is_stated(base_model, tokenizer, monkeypatch):
    from optimize_child.answering import answers as module

    model = load_model(base_model, device="cpu").eval()
    prompts = prompts_of(tokenizer, tiny.ticket_rows(40))
    limits = Limits(frozenset({tokenizer.eos_token_id}), 6)
    speeds = {8: 1.0, 16: 1.2, 32: 99.0}
    monkeypatch.setattr(module.Answering, "_seconds_a_step", lambda _self, _memory, count: speeds[count])
    answering = module.Answering(model, [Asked(i, p) for i, p in enumerate(prompts)], limits, None)
    with torch.inference_mode():
        measured = {asked.key: asked.answer for asked in answering.run()}
    assert answering.slots == 16
    fixed = {a.key: a.answer for a in answer_all(model, [Asked(i, p) for i, p in enumerate(prompts)], limits, slots=16)}
    assert measured == fixed


def test_what_all_prompts_begin_with_is_found_and_leaves_each_a_token():
    head = list(range(20))
    assert shared_prefix([[*head, 1, 2], [*head, 3]]) == 20
    assert shared_prefix([head, [*head, 3]]) == 19
    assert shared_prefix([[1, 2, 3], [1, 2, 4]]) == 0
    assert shared_prefix([head]) == 0
