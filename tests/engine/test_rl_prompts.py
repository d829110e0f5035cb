"""Which rows a reinforcement run rolls out from, what of them it asks, and what it says of those it refuses."""

import json

import jobs
import pytest
import tiny
from optimize_child.reading.questions import question_of
from optimize_child.rendering.template import ChatTemplate
from test_rl import RL, rollouts, train, weights  # noqa: F401 - a fixture
from test_smoke import WITH_TOOLS

pytestmark = pytest.mark.filterwarnings("ignore")

CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


def failing(train, rows, **changes):  # noqa: F811
    failed = jobs.failure(train(rows, **changes))
    assert failed["evidence"]["rows"]
    return failed


@pytest.mark.requirement("R224", "R244")
def test_prompts_that_leave_a_completion_too_little_are_counted_and_the_first_five_named(train):  # noqa: F811
    rows = tiny.ticket_rows(9)
    lengths = [len(ids) for ids in prompt_tokens(rows)]
    room = sorted(lengths)[1]
    failed = failing(train, rows, **{"config.maxSeqLength": room + 12, f"{RL}.maxCompletionLength": 12})
    longer = [f"line {at} ({length} tokens)" for at, length in enumerate(lengths, 1) if length > room]
    assert failed["code"] == "row_too_long"
    assert failed["evidence"]["count"] == len(longer) > 5
    assert failed["reason"].endswith(f"{', '.join(longer[:5])} and {len(longer) - 5} more")
    assert f"maxCompletionLength 12 tokens of maxSeqLength {room + 12}" in failed["reason"]
    fits = train(rows, **{"config.maxSeqLength": max(lengths) + 12, f"{RL}.maxSteps": 1})
    assert tiny.events_of(fits, "data_fit")[0]["longest"] == max(lengths)


@pytest.mark.requirement("R238", "R240", "R241")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: row["messages"][-1].update(tool_calls=[CALL]), "the row's answer calls tools"),
        (lambda row: row.update(tools=[TOOL]), "the row offers tools"),
        (lambda row: row["messages"].pop(), "messages"),
    ],
)
def test_rows_that_cannot_be_rolled_out_from_are_refused_by_their_line(train, change, words):  # noqa: F811
    rows = tiny.ticket_rows(3)
    change(rows[1])
    failed = failing(train, rows)
    assert failed["code"] == "bad_row"
    assert failed["evidence"]["rows"][0]["line"] == "line 2"
    assert words in failed["reason"]


@pytest.mark.requirement("R242")
def test_a_prompt_that_the_template_refuses_is_named_with_the_templates_reason(train, base_model, tmp_path):  # noqa: F811
    from transformers import AutoModelForCausalLM

    refusing = "{% if 'late' in messages[-1]['content'] %}{{ raise_exception('no lateness') }}{% endif %}" + tiny.CHATML
    folder = tmp_path / "refusing"
    AutoModelForCausalLM.from_pretrained(base_model).save_pretrained(folder)
    tiny.make_tokenizer(template=refusing).save_pretrained(folder)
    rows = tiny.ticket_rows(3)
    for row, word in zip(rows, ("order", "late", "order"), strict=True):
        row["messages"][-2]["content"] = word
    failed = failing(train, rows, **{"base_model.folder": str(folder)})
    assert "line 2: the chat template refuses the prompt: no lateness" in failed["reason"]


@pytest.mark.requirement("R237", "R243")
def test_a_prompt_has_the_tokens_that_an_evaluation_asks_whatever_its_shape(train, tokenizer):  # noqa: F811
    rows = tiny.ticket_rows(2)
    asked = rows[1]["messages"][-2]
    asked["content"] = [{"type": "text", "text": asked["content"]}]
    attempt = train(rows, **{f"{RL}.maxSteps": 1, f"{RL}.groupSize": 2})
    asked["content"] = asked["content"][0]["text"]
    texts = [tokenizer.apply_chat_template(row["messages"][:-1], tokenize=False, add_generation_prompt=True)
             for row in rows]  # fmt: skip
    assert all(text.endswith("<|im_start|>assistant\n") for text in texts)
    tokens = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert tiny.events_of(attempt, "data_fit")[0]["totalTokens"] == sum(map(len, tokens))
    assert prompt_tokens(rows) == tokens, "what an evaluation asks"
    assert {one["row"] for one in rollouts(attempt, 1)} == {0, 1}


@pytest.mark.requirement("R243")
def test_a_call_s_argument_is_asked_as_its_row_writes_it_number_or_string(train, tmp_path, base_model):  # noqa: F811
    from transformers import AutoModelForCausalLM

    folder = tmp_path / "calling"
    AutoModelForCausalLM.from_pretrained(base_model).save_pretrained(folder)
    tokenizer = tiny.make_tokenizer(template=WITH_TOOLS)
    tokenizer.save_pretrained(folder)
    values = [7, "7", 7.0, None]
    attempt = train([called_with(value) for value in values], **{
        "base_model.folder": str(folder), f"{RL}.maxSteps": 2, f"{RL}.groupSize": 2,
    })  # fmt: skip
    asked = {line["row"]: line["prompt"] for step in (1, 2) for line in rollouts(attempt, step)}
    shown = [asked[row][1]["tool_calls"][0]["function"]["arguments"] for row in range(4)]
    assert [json.dumps(one) for one in shown] == [json.dumps({"order": value}) for value in values]
    texts = [tokenizer.decode(question_of(ChatTemplate(tokenizer), 0, called_with(value)).tokens) for value in values]
    assert [json.dumps({"order": value}) in text for value, text in zip(values, texts, strict=True)] == [True] * 4
    lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    assert tiny.events_of(attempt, "data_fit")[0]["totalTokens"] == sum(lengths)


def called_with(value) -> dict:
    call = CALL | {"function": {"name": "look_up", "arguments": {"order": value}}}
    return {"messages": [{"role": "user", "content": "where is my order"}, {"role": "assistant", "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "c1", "content": "late"},
                         {"role": "user", "content": "again"}, {"role": "assistant", "content": "late"}]}  # fmt: skip


def prompt_tokens(rows):
    template = ChatTemplate(tiny.make_tokenizer())
    return [question_of(template, at, row).tokens for at, row in enumerate(rows)]


@pytest.mark.requirement("R232", "R333")
def test_an_image_text_model_is_rolled_out_from_text_and_its_towers_stay_as_they_are(train, tmp_path):  # noqa: F811
    from tiny_images import make_image_model

    folder = make_image_model(tmp_path / "image-model")
    attempt = train(tiny.ticket_rows(2, system=None), **{
        "base_model.folder": str(folder), f"{RL}.maxSteps": 2, f"{RL}.groupSize": 2, f"{RL}.maxCompletionLength": 4,
    })  # fmt: skip
    assert len(rollouts(attempt, 2)) == 4
    names = weights(attempt)
    assert names and not any("vision" in name or "connector" in name for name in names)
    assert tiny.events_of(attempt, "data_fit")[0]["longest"] > 30, "without their text the prompts are of 11 tokens"
