"""An analysis reads rows as a run over them would: with their tools, their beginning, and by the registry's rule."""

import jobs
import pytest
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.masks import Policy
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.tokenizer import load_tokenizer
from test_analyse import ANSWER, USER, analyse, lengths, model_with, plan_of  # noqa: F401 - fixtures
from test_masks import stock

SYSTEM = {"role": "system", "content": "help"}
TOOL = {"type": "function", "function": {"name": "track", "parameters": {"default": None}}}


@pytest.mark.requirement("R323", "R331", "R340")
def test_a_row_is_measured_with_the_tools_that_it_offers_and_without_where_it_offers_none(
    analyse, lengths, model_with, write_rows  # noqa: F811
):
    """Under Llama 3.2's template, which refuses a system message alone beside tools."""
    llama = stock("llama3.2")
    folder = model_with(llama.text)
    llama.tokenizer.save_pretrained(folder)
    plain = {"messages": [SYSTEM, USER, ANSWER]}
    rows = [{**plain, "tools": [TOOL]}, plain, {**plain, "tools": []}]
    report = analyse(rows, **{"base_model.folder": str(folder)})
    template, reading = ChatTemplate(load_tokenizer(folder)), Reading(Policy(), 4000, "error")
    trained = read_tokens([write_rows(rows)], template, reading, lambda _done: None)
    offered, *others = lengths()[:, 0].tolist()
    assert report["templateProblemRows"] == 0
    assert [offered, *others] == trained.lengths().tolist()
    assert offered > others[0] == others[1]


@pytest.mark.requirement("R324")
def test_a_pair_that_the_registry_would_refuse_fails_the_analysis_and_is_named(plan_of, write_rows, tmp_path):  # noqa: F811
    pair = {"prompt": [USER], "chosen": ANSWER, "rejected": {"role": "assistant", "content": "lost"}}
    rows = write_rows([pair, {**pair, "rejected": USER}])
    plan = plan_of([rows], **{"dataset.format": "preference-jsonl-v1"})
    failure = jobs.failure(jobs.run(tmp_path / "attempt", plan))
    assert failure["code"] == "bad_row"
    assert failure["reason"].startswith("1 row cannot be measured. line 2: rejected: ")
