"""What a model is asked is, token by token, the beginning of what it was trained on."""

import json

import pytest
from optimize_child import job
from optimize_child.rl_prompts import Room, read_prompts
from test_masks import FAMILIES, say, stock


@pytest.mark.requirement("R336", "R340")
@pytest.mark.parametrize("family", FAMILIES)
def test_an_evaluation_s_prompt_is_rendered_and_tokenised_as_a_supervised_row_is(family):
    """One template and one tokenizer serve both, whatever the family and whichever engine then generates."""
    chat, messages = stock(family), say("my parcel is late", "sorry")
    (asked,), _ = chat.tokenize([chat.render(messages[:1], to_answer=True)])
    (trained,), _ = chat.tokenize([chat.render(messages)])
    assert trained[: len(asked)] == asked


@pytest.mark.requirement("R334")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_reinforcement_prompt_is_rendered_and_tokenised_as_a_supervised_row_is(family, tmp_path):
    chat, messages = stock(family), say("my parcel is late", "sorry")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"messages": messages}) + "\n")
    prompt = read_prompts([rows], chat, Room(512, 8), lambda _: None, tmp_path).prompt(0)
    (trained,), _ = chat.tokenize([chat.render(messages)])
    assert trained[: len(prompt.tokens)] == list(prompt.tokens)


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
