"""Rows that a chat template refuses, or renders without saying all of it, are told apart from good ones."""

import pytest
from optimize_child.rendering.template_check import NotRendered, TemplateCheck
from test_masks import call, say, stock, template

TOOL = {"type": "function", "function": {"name": "track", "description": "Where it is.", "parameters": {}}}
ALL_SAID = [
    *say("where is it"),
    {"role": "assistant", "content": "Let me look.", "tool_calls": [call(parcel=7)]},
    {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "in Lyon"},
    {"role": "assistant", "content": "It is in Lyon."},
]
FINAL_CALL = [*say("where is it"), {"role": "assistant", "content": "Looking.", "tool_calls": [call(parcel=7)]}]


def problem_of(chat, messages, tools=None):
    with pytest.raises(NotRendered) as refusal:
        TemplateCheck(chat).render(messages, tools)
    return refusal.value.problem


@pytest.mark.requirement("R337")
@pytest.mark.parametrize("messages", [ALL_SAID, FINAL_CALL])
def test_a_template_that_says_everything_is_not_blamed(messages):
    chat = stock("qwen2.5")
    assert TemplateCheck(chat).render(messages, [TOOL]) == chat.render(messages, [TOOL])


@pytest.mark.requirement("R337", "R338")
@pytest.mark.parametrize(
    ("family", "messages", "kind", "where", "reason"),
    [
        ("llama3", ALL_SAID, "call_dropped", "earlier", "leaves out a call of messages[1]"),
        ("llama3", FINAL_CALL, "call_dropped", "answer", "leaves out a call of messages[1], the answer"),
        ("llama3.2", ALL_SAID, "text_dropped", "earlier", "leaves out the text beside the calls of messages[1]"),
        ("llama3.2", FINAL_CALL, "text_dropped", "answer", "the text beside the calls of messages[1], the answer"),
        ("gemma3", [*say("a", "b"), *say("c", "d")[1:]], "refused", "answer", "roles must alternate"),
    ],
)
def test_what_a_template_leaves_out_is_named_with_its_place(family, messages, kind, where, reason):
    problem = problem_of(stock(family), messages, [TOOL] if "tool_calls" in str(messages) else None)
    assert (problem.kind, problem.where) == (kind, where)
    assert reason in problem.reason


@pytest.mark.requirement("R338")
def test_an_earlier_call_left_out_is_named_though_its_message_has_no_text_and_the_name_stands_elsewhere():
    messages = [
        *say("please track my parcel"),
        {"role": "assistant", "content": "", "tool_calls": [call("track")]},
        {"role": "tool", "tool_call_id": "c1", "content": "in Lyon"},
        {"role": "assistant", "content": "There."},
    ]
    assert problem_of(stock("llama3"), messages).kind == "call_dropped"


@pytest.mark.requirement("R337")
def test_a_text_left_out_is_named_though_another_message_says_the_same():
    messages = [*say("look"), {"role": "assistant", "content": "look", "tool_calls": [call()]}]
    assert problem_of(stock("llama3.2"), messages).kind == "text_dropped"


@pytest.mark.requirement("R337")
def test_reasoning_cut_out_of_the_answer_is_a_text_left_out_and_out_of_an_earlier_message_is_not():
    cutting = template(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content.split('</think>')[-1] + '<|im_end|>\n' }}"
        "{% endfor %}"
    )
    thought = "<think>\nhm\n</think>\n\nyes"
    assert problem_of(cutting, say("a", thought)).reason.endswith("a part of the text of messages[1], the answer")
    assert TemplateCheck(cutting).render(say("a", thought, "b", "no"), None)
    assert TemplateCheck(stock("qwen3")).render(say("a", thought, "b", thought), None)


@pytest.mark.requirement("R337")
def test_an_earlier_message_of_nothing_but_reasoning_that_is_cut_leaves_no_text():
    messages = say("a", "<think>\nhm\n</think>", "b", "no")
    cutting = template(
        "{% for m in messages %}{{ '<|im_start|>' + m.content.split('</think>')[-1] + '<|im_end|>\n' }}{% endfor %}"
    )
    problem = problem_of(cutting, messages)
    assert (problem.kind, problem.where, problem.message) == ("text_dropped", "earlier", 1)


def test_a_template_without_a_system_role_refuses_with_its_own_reason():
    gemma2 = template(
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    problem = problem_of(gemma2, [{"role": "system", "content": "Be kind."}, *say("a", "b")])
    assert (problem.kind, problem.where) == ("refused", "earlier")
    assert "System role not supported" in problem.reason


def test_the_rows_of_one_shape_are_tried_once(monkeypatch):
    chat, renderings = stock("qwen2.5"), []
    render = chat.render
    monkeypatch.setattr(chat, "render", lambda *args, **more: renderings.append(1) or render(*args, **more))
    check = TemplateCheck(chat)
    for number in range(20):
        check.render(say(f"question {number}", f"answer {number}"), None)
    assert len(renderings) == 21
