"""Counting by pieces and placing by shape give what whole texts and masks give, under many tokenizers and templates."""

import json
import random

import pytest
import tiny
from optimize_child.analysis.counting import Marked, Pieces, WholeTexts, counter_for, splitting_tokens
from optimize_child.analysis.placing import POLICIES, Placer
from optimize_child.rendering.masks import Conversation
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.template_check import TemplateCheck
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

THINKING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BARE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
TEMPLATES = {"chatml": tiny.CHATML, "thinking": THINKING, "bare": BARE}
TEXTS = [
    "plain words",
    "",
    " spaces around ",
    "<|im_end|>",
    "a<|im_start|>b",
    "hé 👩‍👩‍👧 ñ́",
    "日本語の文",
    "tab\tand\r\nline",
    "assistant\n",
    "x" * 300,
]


def conversations(count, *, seed=0):
    rng = random.Random(seed)
    for _ in range(count):
        words = [
            rng.choice(TEXTS) + " ".join(rng.choices(tiny.WORDS, k=rng.randint(0, 9)))
            for _ in range(rng.choice([2, 2, 4, 6]))
        ]
        head = [{"role": "system", "content": rng.choice(["You help.", ""])}] * rng.randint(0, 1)
        yield head + [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(words)]


def whole_word_tokenizer(pre_tokenizer, normalizer=None):
    """Words and single characters, under any way of cutting a text into them."""
    raw = Tokenizer(
        models.WordLevel({"<unk>": 0, **{word: at for at, word in enumerate(tiny.WORDS, start=1)}}, "<unk>")
    )
    raw.pre_tokenizer = pre_tokenizer
    if normalizer:
        raw.normalizer = normalizer
    raw.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(tokenizer_object=raw, chat_template=tiny.CHATML, eos_token="<|im_end|>")


TOKENIZERS = {
    "byte level": lambda: tiny.make_tokenizer(),
    "split and digits": lambda: whole_word_tokenizer(
        pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.Whitespace()])
    ),
    "metaspace always": lambda: whole_word_tokenizer(pre_tokenizers.Metaspace(prepend_scheme="always")),
    "replaced spaces": lambda: whole_word_tokenizer(
        pre_tokenizers.Split("▁", "merged_with_next"),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", "▁")]),
    ),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_pieces_of_a_conversation_have_its_tokens_and_its_trained_tokens(name):
    tokenizer = TOKENIZERS[name]()
    check = TemplateCheck(ChatTemplate(tokenizer))
    marked = []
    for messages in conversations(60):
        conversation = Conversation(check, messages, None)
        marked.append(Marked(conversation.text, tuple(conversation.trained_spans(policy) for policy in POLICIES)))
    by_piece = counter_for(tokenizer)
    assert isinstance(by_piece, Pieces)
    whole = WholeTexts(tokenizer.backend_tokenizer).count(marked)
    assert by_piece.count(marked[:30]) + by_piece.count(marked) == whole[:30] + whole


def test_what_is_remembered_of_pieces_is_bounded(tokenizer, monkeypatch):
    monkeypatch.setattr("optimize_child.analysis.counting.KEPT_CHARACTERS", 100)
    counter = counter_for(tokenizer)
    marked = [Marked(f"word {at} " * 5, ([],)) for at in range(40)]
    whole = WholeTexts(tokenizer.backend_tokenizer).count(marked)
    assert [counter.count([one])[0] for one in marked] == whole
    assert len(counter._lengths) < 5


@pytest.mark.parametrize(
    "change",
    [
        {"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}]}},
        {"added_tokens": []},
        {
            "added_tokens": [
                {"content": "<s>", "normalized": False, "lstrip": True, "rstrip": False, "single_word": False}
            ]
        },
    ],
)
def test_a_tokenizer_whose_pieces_may_depend_on_each_other_is_given_whole_texts(tokenizer, change):
    body = json.loads(tokenizer.backend_tokenizer.to_str())
    assert splitting_tokens(body) is not None
    assert splitting_tokens({**body, **change}) is None


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_row_is_placed_by_its_shape_as_masks_place_it(name):
    check = TemplateCheck(ChatTemplate(tiny.make_tokenizer(template=TEMPLATES[name])))
    placer, seen = Placer(check), 0
    for messages in conversations(80, seed=1):
        conversation = Conversation(check, messages, None)
        expected = tuple(conversation.trained_spans(policy) for policy in POLICIES)
        assert placer.spans(messages, None, conversation.text) == expected
        shape = placer._shape(messages)
        seen += shape is not None and shape.place(messages, conversation.text) is not None
    # Without a token that closes a turn, the row's words decide where its trained text ends.
    assert seen == 0 if name == "bare" else seen > 20


def test_most_rows_are_placed_without_rendering_them_again(tokenizer, monkeypatch):
    check = TemplateCheck(ChatTemplate(tokenizer))
    placer, rows = Placer(check), [row["messages"] for row in tiny.ticket_rows(50)]
    texts = [check.template.render(messages) for messages in rows]
    rendered = []
    render = check.template.render
    monkeypatch.setattr(check.template, "render", lambda *args, **more: rendered.append(1) or render(*args, **more))
    for messages, text in zip(rows, texts, strict=True):
        placer.spans(messages, None, text)
    assert len(rendered) < 25
