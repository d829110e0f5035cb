"""Preference pairs as tokens: one prompt, two answers, and a length that holds both."""

import pytest
import tiny
from optimize_child.failures import JobFailure
from optimize_child.pairs.tokens import read_pairs
from optimize_child.reading.lines import read_lines
from optimize_child.rendering.template_check import TemplateCheck
from test_masks import call, say, stock, template

ANSWER = {"role": "assistant", "content": "on its way"}
PAIR = {"prompt": say("where is it"), "chosen": ANSWER, "rejected": {"role": "assistant", "content": "no"}}


def pairs(chat, rows, write_rows):
    return list(read_pairs(read_lines([write_rows(rows)]), TemplateCheck(chat)))


@pytest.mark.requirement("R340")
@pytest.mark.parametrize("family", ["llama3", "qwen2.5", "gemma3", "qwen3"])
def test_f13_f14_a_pair_has_the_templates_beginning_once_and_none_before_its_answers(family, write_rows):
    chat = stock(family)
    (pair,) = pairs(chat, [PAIR], write_rows)
    whole = chat.tokenizer.decode([*pair.prompt, *pair.chosen])
    assert whole == chat.render([*PAIR["prompt"], PAIR["chosen"]])
    assert "on its way" in chat.tokenizer.decode(pair.chosen)
    assert all(type(token) is int for token in [*pair.prompt, *pair.chosen, *pair.rejected])
    begin = chat.tokenizer.bos_token_id
    assert [*pair.prompt, *pair.chosen].count(begin) == chat.render(PAIR["prompt"]).count(chat.tokenizer.bos_token)
    assert begin not in pair.rejected


@pytest.mark.requirement("R340")
def test_a_tokenizer_without_a_beginning_token_puts_nothing_in_its_place_f14(write_rows):
    tokenizer = tiny.make_tokenizer()
    tokenizer.bos_token = None
    from optimize_child.rendering.template import ChatTemplate

    (pair,) = pairs(ChatTemplate(tokenizer), [PAIR], write_rows)
    assert None not in [*pair.prompt, *pair.chosen, *pair.rejected]


@pytest.mark.requirement("R332")
def test_a_pair_reads_the_same_under_a_template_that_reads_parts(write_rows):
    of_parts = template(tiny.CHATML.replace("m['content']", "m['content'][0]['text']").replace(
        "message['content']", "message['content'][0]['text']"))
    assert of_parts.reads_parts and not template(tiny.CHATML).reads_parts
    tokens = [[(pair.prompt, pair.chosen, pair.rejected) for pair in pairs(chat, [PAIR], write_rows)]
              for chat in (of_parts, template(tiny.CHATML))]
    assert tokens[0] == tokens[1]
    assert "on its way" in of_parts.tokenizer.decode(tokens[0][0][1])


@pytest.mark.requirement("R266")
@pytest.mark.parametrize("longer", ["chosen", "rejected"])
def test_a_pair_is_as_long_as_its_prompt_with_the_longer_answer(tokenizer, write_rows, longer):
    from optimize_child.rendering.template import ChatTemplate

    chat, short = ChatTemplate(tokenizer), PAIR["rejected"]
    (pair,) = pairs(chat, [{**PAIR, "chosen": short, "rejected": short, longer: ANSWER}], write_rows)
    assert pair.length == len(chat.tokenize([chat.render([*PAIR["prompt"], ANSWER])])[0][0])


@pytest.mark.requirement("R315")
def test_an_answer_that_calls_tools_is_rendered_after_a_prompt_that_offers_them(write_rows):
    tool = {"type": "function", "function": {"name": "track", "description": "x", "parameters": {}}}
    calling = {"role": "assistant", "content": "Looking.", "tool_calls": [call(parcel=7)]}
    chat = stock("qwen2.5")
    (pair,) = pairs(chat, [{**PAIR, "tools": [tool], "chosen": calling}], write_rows)
    assert "<tools>" in chat.tokenizer.decode(pair.prompt)
    assert '"parcel": 7' in chat.tokenizer.decode(pair.chosen)


@pytest.mark.requirement("R267")
def test_pairs_that_cannot_be_used_are_named_by_their_lines(write_rows):
    unsteady = template(
        "{% for m in messages %}{{ (messages | length) ~ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}"
    )
    with pytest.raises(JobFailure) as info:
        pairs(unsteady, [PAIR, {**PAIR, "rejected": {"role": "user", "content": "x"}}], write_rows)
    assert "line 1: the chat template does not render the chosen answer after the prompt" in info.value.reason
    assert "line 2: rejected" in info.value.reason
