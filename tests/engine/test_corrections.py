"""Corrected chat templates: what they change, that they are known by their digests, and that every reader gets them."""

import tomllib
from pathlib import Path

import jobs
import pytest
import tiny
from optimize_child.bases.checks import examine
from optimize_child.failures import JobFailure
from optimize_child.rendering.corrections import corrected_text
from optimize_child.rendering.template import template_sha256
from optimize_child.rendering.template_check import TemplateCheck
from optimize_child.rendering.tokenizer import load_template, load_tokenizer
from test_masks import STOCK, call, say, template

CATALOGS = Path(__file__).resolve().parents[2] / "catalogs"
GEMMA4 = tomllib.loads((CATALOGS / "chat_templates" / "gemma-4-text-before-calls.toml").read_text())
SHIPPED = {template_sha256(path.read_text()): path.read_text() for path in STOCK.glob("gemma4*.jinja")}
TOOL = {"type": "function", "function": {"name": "track", "description": "Where it is.", "parameters": {}}}
CALLING = [*say("where is it"), {"role": "assistant", "content": "Let me look.", "tool_calls": [call(parcel=7)]}]
ANSWERED = [
    *CALLING,
    {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "in Lyon"},
    {"role": "assistant", "content": "It is in Lyon."},
]


@pytest.mark.requirement("R328")
@pytest.mark.parametrize("variant", GEMMA4["variants"], ids=lambda variant: variant["shipped"][:8])
def test_gemma_4_renders_an_answers_text_before_its_calls_under_each_known_template(variant):
    text = corrected_text(SHIPPED[variant["shipped"]], variant)
    assert template_sha256(text) == variant["corrected"]
    check = TemplateCheck(template(text))
    for messages in (CALLING, ANSWERED):
        rendered = check.render(messages, [TOOL])
        assert "<|turn>model\nLet me look.<|tool_call>call:track{parcel:7}<tool_call|>" in rendered
    assert rendered.rstrip().endswith("It is in Lyon.<turn|>")
    assert rendered.startswith(check.template.render(ANSWERED[:-1], [TOOL], to_answer=True))


@pytest.mark.requirement("R328")
def test_the_catalog_corrects_exactly_the_three_models_that_need_it():
    entries = tomllib.loads((CATALOGS / "base_models.toml").read_text())
    corrected = {name for name, entry in entries.items() if entry.get("chat_template_correction")}
    assert corrected == {"google/gemma-4-E2B-it", "google/gemma-4-E4B-it", "google/gemma-4-12B-it"}


@pytest.fixture
def folder(tmp_path):
    return tiny.make_base_model(tmp_path / "base")


def correction(old: str, new: str, corrected: str | None = None) -> dict:
    text = tiny.CHATML.replace(old, new)
    variant = {"shipped": template_sha256(tiny.CHATML), "corrected": corrected or template_sha256(text)}
    return {"reason": "It helps.", "variants": [{**variant, "replace": [{"old": old, "new": new}]}]}


@pytest.mark.requirement("R327", "R328", "R329")
def test_preparing_writes_the_corrected_template_where_every_job_reads_it(folder):
    facts = examine(folder, {"chat_template_correction": correction("You help.", "You help well.")})
    shipped = template_sha256(tiny.CHATML)
    assert facts["chat_template_correction"] == {"shipped_sha256": shipped, "reason": "It helps."}
    stated = {"chat_template_sha256": facts["chat_template_sha256"]}
    assert stated["chat_template_sha256"] != shipped
    assert "You help well." in load_template(stated, load_tokenizer(folder)).render(say("a", "b"))


@pytest.mark.requirement("R329", "R327")
def test_an_evaluation_asks_under_the_corrected_template(folder, write_rows, tmp_path):
    facts = examine(folder, {"chat_template_correction": correction("You help.", "You help well.")})
    corrected = facts["chat_template_sha256"]
    rows = write_rows([{"messages": say("a", "b")}])
    plan = tiny.evaluation_plan(folder, [rows], **{"base_model.chat_template_sha256": corrected, "max_new_tokens": 1})
    attempt = jobs.run(tmp_path / "attempt", plan)
    (answer,) = tiny.events_of(attempt, "answer")
    template = load_template({"chat_template_sha256": corrected}, load_tokenizer(folder))
    assert answer["chat_template_sha256"] == corrected == template.sha256
    (asked,), _ = template.tokenize([template.render(say("a"), None, to_answer=True)])
    assert "You help well." in template.tokenizer.decode(asked) and answer["prompt_tokens"] == len(asked)


@pytest.mark.requirement("R329")
def test_a_template_that_no_correction_knows_stays_as_it_is_shipped(folder):
    unknown = correction("You help.", "You help well.")
    unknown["variants"][0]["shipped"] = "0" * 64
    facts = examine(folder, {"chat_template_correction": unknown, "chat_template_sha256": template_sha256(tiny.CHATML)})
    assert facts["chat_template_correction"] is None
    assert facts["chat_template_sha256"] == template_sha256(tiny.CHATML)


@pytest.mark.parametrize(
    ("old", "corrected", "reason"),
    [("You help.", "0" * 64, "not 000000000000 as the catalog states"), ("nowhere", None, "stands 0 times")],
)
def test_a_correction_that_does_not_give_what_it_promises_refuses_the_model(folder, old, corrected, reason):
    with pytest.raises(JobFailure, match=reason) as info:
        examine(folder, {"chat_template_correction": correction(old, "x", corrected)})
    assert info.value.code == "base_model_refused"


def test_a_job_that_finds_another_template_than_was_prepared_refuses_to_start(folder):
    with pytest.raises(JobFailure, match="111111111111 was expected"):
        load_template({"chat_template_sha256": "1" * 64}, load_tokenizer(folder))
