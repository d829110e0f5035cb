"""Which characters and tokens are trained, under the stock chat templates of several model families."""

import os
from pathlib import Path

import pytest
import tiny
import trl
from optimize_child.rendering.masks import Conversation, Policy, token_mask
from optimize_child.rendering.template import ChatTemplate, TemplateRefused
from optimize_child.rendering.template_check import NotRendered, TemplateCheck
from tokenizers.processors import TemplateProcessing

STOCK = Path(trl.__file__).parent / "chat_templates"
FAMILIES = {
    "qwen2.5": "qwen2_5",
    "qwen3": "qwen3",
    "llama3": "llama3",
    "llama3.2": "llama3_2",
    "gemma3": "gemma3",
    "phi3": "phi3",
    "gpt-oss": "gptoss",
    "ministral": "",
}
MINISTRAL = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'user' %}[INST]{{ message.content }}[/INST]"
    "{% elif message.role == 'assistant' %}{{ message.content }}{{ eos_token }}"
    "{% else %}{{ raise_exception('Only users and the assistant speak.') }}{% endif %}{% endfor %}"
)
"""The shape of that family's template: turns without names of roles, an answer right behind what asks for it."""
BEGINNINGS = {
    "llama3": "<|begin_of_text|>", "llama3.2": "<|begin_of_text|>", "gemma3": "<bos>", "ministral": "<s>",
}  # fmt: skip
"""Families whose template writes the beginning of a sequence and whose tokenizer adds it to a text as well."""
LAST = Policy()
LOOP = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
END = {
    "qwen2.5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "llama3.2": "<|eot_id|>",
    "gemma3": "<end_of_turn>",
    "phi3": "<|end|>\n<|im_end|>",  # this template closes a conversation with the tokenizer's end token as well
    "gpt-oss": "<|return|>",
    "ministral": "</s>",
}
SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<start_of_turn>", "<end_of_turn>", "<bos>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|return|>",
    "<|start|>", "<|message|>", "<|channel|>", "<s>", "</s>", "[INST]", "[/INST]",
]  # fmt: skip


def template(text: str) -> ChatTemplate:
    return ChatTemplate(tokenizer_of(text))


def tokenizer_of(text: str, bos: str = "<bos>"):
    tokenizer = tiny.make_tokenizer(template=text)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.bos_token = bos
    return tokenizer


def tokenizer_of_family(family: str):
    """A tiny tokenizer with the family's chat template, which begins texts as the family's own does."""
    text = (STOCK / f"{FAMILIES[family]}.jinja").read_text() if FAMILIES[family] else MINISTRAL
    tokenizer = tokenizer_of(text, BEGINNINGS.get(family, "<bos>"))
    if family == "ministral":
        tokenizer.eos_token = "</s>"
    if family in BEGINNINGS:
        bos = (tokenizer.bos_token, tokenizer.bos_token_id)
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"{bos[0]} $A", special_tokens=[bos])
    return tokenizer


def stock(family: str) -> ChatTemplate:
    return ChatTemplate(tokenizer_of_family(family))


def trained(chat: ChatTemplate, messages: list, policy: Policy = LAST, tools=None) -> list[str]:
    conversation = Conversation(TemplateCheck(chat), messages, tools)
    return [conversation.text[span.start : span.end] for span in conversation.trained_spans(policy)]


def trained_by_tokens(chat: ChatTemplate, messages: list, policy: Policy = LAST) -> str:
    conversation = Conversation(TemplateCheck(chat), messages, None)
    ids, offsets = chat.tokenize([conversation.text])
    mask = token_mask(offsets[0], conversation.trained_spans(policy))
    return chat.tokenizer.decode([token for token, bit in zip(ids[0], mask, strict=True) if bit])


def say(*turns: str) -> list[dict]:
    roles = ["user", "assistant"] * len(turns)
    return [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]


def call(name: str = "track", id_: str = "c1", **arguments) -> dict:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.requirement("R128", "R129", "R130")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_answer_and_its_end_of_turn_are_trained_and_nothing_else(family):
    (text,) = trained(stock(family), say("question one", "answer one", "question two", "answer two"))
    assert text.endswith("answer two" + END[family])
    assert "question" not in text
    assert "answer one" not in text


@pytest.mark.requirement("R128", "R129")
@pytest.mark.parametrize("family", FAMILIES)
def test_all_turns_trains_each_answer_once_and_no_question(family):
    texts = trained(
        stock(family), say("question one", "answer one", "question two", "answer two"), Policy(all_turns=True)
    )
    assert len(texts) == 2
    assert "answer one" in texts[0]
    assert "answer two" in texts[1]
    assert all("question" not in text for text in texts)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_one_token_answer_has_a_mask_though_the_template_has_no_markers(family):
    assert trained_by_tokens(stock(family), say("is it late?", "yes")).strip().endswith("yes" + END[family])


@pytest.mark.requirement("R340")
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_equal_those_of_apply_chat_template_with_one_beginning(family):
    chat, messages = stock(family), say("my parcel is late", "sorry")
    ids, _ = chat.tokenize([chat.render(messages)])
    whole = chat.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, date_string="26 Jul 2024")[
        "input_ids"
    ]
    assert ids[0] == list(whole)
    assert ids[0].count(chat.tokenizer.bos_token_id) == (1 if family in BEGINNINGS else 0)


@pytest.mark.parametrize("family", BEGINNINGS)
def test_the_tokenizers_of_these_tests_begin_a_text_by_themselves(family):
    """Else one beginning would be no achievement."""
    tokenizer = tokenizer_of_family(family)
    assert tokenizer("my parcel")["input_ids"][0] == tokenizer.bos_token_id


@pytest.mark.requirement("R340")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_asked_is_the_beginning_of_the_row_trained(family):
    chat, messages = stock(family), say("my parcel is late", "sorry")
    assert chat.render(messages).startswith(chat.render(messages[:1], to_answer=True))


def test_f12_the_end_of_turn_is_trained_though_it_is_also_the_padding_token(tokenizer):
    chat = ChatTemplate(tokenizer)
    assert tokenizer.pad_token == tokenizer.eos_token
    assert trained_by_tokens(chat, say("where is it", "on its way")) == "on its way<|im_end|>"


def test_a_default_system_turn_the_template_writes_is_never_trained(tokenizer):
    texts = trained(ChatTemplate(tokenizer), say("a", "b", "c", "d"), Policy(all_turns=True))
    assert texts == ["b<|im_end|>", "d<|im_end|>"]


def test_a_template_that_shows_reasoning_only_in_the_last_turn_still_finds_earlier_answers():
    texts = trained(stock("qwen3"), say("a", "first", "b", "second"), Policy(all_turns=True))
    assert texts[0] == "first<|im_end|>"
    assert texts[1].endswith("second<|im_end|>")


@pytest.mark.parametrize("family", ["qwen3_5_think", "qwen3"])
def test_f05_reasoning_is_trained_where_the_models_own_template_puts_it(family):
    chat = template((STOCK / f"{family}.jinja").read_text())
    messages = say("a", "<think>\nearlier\n</think>\n\nfirst", "b", "<think>\nnow\n</think>\n\nsecond")
    shown = chat.tokenizer.apply_chat_template(messages, tokenize=False)
    first, second = trained(chat, messages, Policy(all_turns=True))
    assert "earlier" not in shown
    assert "first" in first
    assert chat.render(messages[:-1], to_answer=True) + second == shown.rstrip()
    assert second.index("now") < second.index("</think>") < second.index("second")


def test_a_template_that_trims_answers_trains_what_it_shows():
    (text,) = trained(stock("llama3"), say("a", "  spaced out  "))
    assert text == "spaced out<|eot_id|>"


def test_an_answer_equal_to_the_question_is_found_in_its_own_place():
    chat = stock("qwen3")
    conversation = Conversation(TemplateCheck(chat), say("same", "same", "same", "same"), None)
    first, second = conversation.trained_spans(Policy(all_turns=True))
    assert conversation.text[: first.start].endswith("assistant\n")
    assert second.start > first.end


@pytest.mark.requirement("R131", "R134")
def test_calls_of_earlier_answers_are_trained_or_left_out_as_the_policy_says():
    chat = stock("qwen2.5")
    messages = [
        *say("where is it"),
        {"role": "assistant", "content": "Let me look.", "tool_calls": [call(parcel=7)]},
        {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "in Lyon"},
        {"role": "assistant", "content": "It is in Lyon."},
    ]
    whole = trained(chat, messages, Policy(all_turns=True))
    assert "Let me look." in whole[0]
    assert '"parcel": 7' in whole[0]
    assert whole[0].endswith("<|im_end|>")
    text_only = trained(chat, messages, Policy(all_turns=True, tool_calls=False))
    assert text_only[0] == "Let me look."
    assert text_only[1] == "<|im_end|>"
    assert all("parcel" not in text for text in text_only)
    assert trained(chat, messages) == ["It is in Lyon.<|im_end|>"]


@pytest.mark.requirement("R132")
def test_a_tool_result_is_trained_only_where_the_policy_says_so():
    chat = stock("qwen2.5")
    messages = [
        *say("where is it"),
        {"role": "assistant", "content": "", "tool_calls": [call(parcel=7)]},
        {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "in Lyon"},
        {"role": "assistant", "content": "There."},
    ]
    assert trained(chat, messages, Policy(tool_results=True)) == ["in Lyon", "There.<|im_end|>"]
    assert trained(chat, messages) == ["There.<|im_end|>"]


@pytest.mark.requirement("R133")
def test_a_final_answer_that_calls_tools_is_trained_whole_whatever_the_policy_says():
    messages = [*say("where is it"), {"role": "assistant", "content": "Looking.", "tool_calls": [call(parcel=7)]}]
    (text,) = trained(stock("qwen3"), messages, Policy(tool_calls=False))
    assert "Looking." in text
    assert '"parcel": 7' in text
    assert text.endswith("<|im_end|>")


def test_parallel_results_merged_into_one_turn_keep_their_own_places():
    chat = stock("qwen3")
    messages = [
        *say("both?"),
        {"role": "assistant", "content": "", "tool_calls": [call(id_="c1", n=1), call(id_="c2", n=2)]},
        {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "first result"},
        {"role": "tool", "tool_call_id": "c2", "name": "track", "content": "second result"},
        {"role": "assistant", "content": "done"},
    ]
    texts = trained(chat, messages, Policy(tool_results=True))
    assert texts[:2] == ["first result", "second result"]


def test_a_template_that_drops_a_call_is_refused(tokenizer):
    messages = [
        *say("where is it"),
        {"role": "assistant", "content": "", "tool_calls": [call()]},
        {"role": "tool", "tool_call_id": "c1", "name": "x", "content": "in Lyon"},
        {"role": "assistant", "content": "There."},
    ]
    with pytest.raises(NotRendered, match=r"leaves out a call of messages\[1\]"):
        Conversation(TemplateCheck(ChatTemplate(tokenizer)), messages, None)


def test_a_template_that_refuses_a_conversation_says_why():
    with pytest.raises(TemplateRefused):
        stock("gemma3").render([*say("a"), *say("b"), {"role": "assistant", "content": "c"}])


def test_a_template_that_never_ends_is_interrupted(monkeypatch):
    monkeypatch.setattr("optimize_child.rendering.template.RENDER_SECONDS", 0.2)
    with pytest.raises(TemplateRefused, match="did not finish"):
        template(LOOP).render(say("a", "b"))


def test_a_template_that_never_ends_is_interrupted_in_a_worker_process_too(monkeypatch):
    monkeypatch.setattr("optimize_child.rendering.template.RENDER_SECONDS", 0.05)
    endless = template("{% if messages | length > 2 %}" + LOOP + "{% endif %}{{ messages[0].content }}")
    worker = os.fork()
    if not worker:
        try:
            endless.render(say("a", "b", "c"))
        except TemplateRefused as refusal:
            os._exit(7 if "did not finish" in str(refusal) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 7


def test_two_renderings_on_different_days_are_the_same():
    chat = stock("llama3.2")
    assert "26 Jul 2024" in chat.render(say("a", "b"))
