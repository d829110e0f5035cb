"""What a model is asked is, token by token, the beginning of what it was trained on."""

import json

import pytest
from optimize_child import job
from optimize_child.reading.questions import question_of
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.reinforcement.prompts import Room, read_prompts
from optimize_child.rendering.tokenizer import load_template, load_tokenizer
from test_masks import BEGINNINGS, FAMILIES, LAST, say, tokenizer_of_family

ROW = {"messages": say("my parcel is late", "sorry")}


@pytest.fixture(params=FAMILIES)
def sides(request, tmp_path):
    """A family, the tokens of a supervised row, the template as another job loads it from the same prepared folder, and
    the file with the row."""
    tokenizer_of_family(request.param).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROW) + "\n")
    reading = Reading(policy=LAST, max_length=512, truncation="error", mask_column=None, dataset="training")
    ids, _ = read_tokens([rows], loaded(tmp_path), reading, lambda _: None, tmp_path).row(0)
    return request.param, ids.tolist(), loaded(tmp_path), rows


def loaded(folder):
    return load_template({}, load_tokenizer(folder))


def begins_as_trained(asked, family, trained, template):
    """Whether a prompt is the beginning of the row that is trained, with one beginning of its own where it has one."""
    return trained[: len(asked)] == asked and asked.count(template.tokenizer.bos_token_id) == (family in BEGINNINGS)


@pytest.mark.requirement("R336", "R340")
def test_an_evaluation_s_prompt_is_rendered_and_tokenised_as_a_supervised_row_is(sides):
    """Whichever engine then generates, it is given these tokens."""
    family, trained, template, _ = sides
    assert begins_as_trained(question_of(template, 0, ROW).tokens, family, trained, template)


@pytest.mark.requirement("R334")
def test_a_reinforcement_prompt_is_rendered_and_tokenised_as_a_supervised_row_is(sides, tmp_path):
    family, trained, template, rows = sides
    prompt = read_prompts([rows], template, Room(512, 8), lambda _: None, tmp_path).prompt(0)
    assert begins_as_trained(list(prompt.tokens), family, trained, template)


@pytest.mark.requirement("R248")
def test_a_job_on_a_gpu_starts_with_expandable_segments_unless_the_box_configures_another(monkeypatch):
    plan = {"threads": 1, "device": {"kind": "cuda", "uuids": ["GPU-a"]}}
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    environment = dict(job.os.environ)
    monkeypatch.setattr(job.os, "environ", environment)
    job.set_up_process(plan)
    assert environment["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    environment |= {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}
    job.set_up_process(plan)
    assert environment["PYTORCH_CUDA_ALLOC_CONF"] == "backend:native"
