"""The examples that ship: written by their scripts to the byte, nothing held out shown in training."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evaluations.scoring.judge_words import judge_messages, read_judgement
from optimize_site.appliance.places import CHECKOUT

EXAMPLES = CHECKOUT / "catalogs" / "examples"
WRITTEN = {"sums": ("train.jsonl", "eval.jsonl"), "replies": ("train.jsonl", "held-out.jsonl", "eval.jsonl"),
           "judging": ("train.jsonl", "held-out.jsonl", "asked.jsonl")}


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"make_{name}", EXAMPLES / name / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def asked(row: dict[str, Any]) -> str:
    """What a row asks: the last message that a customer wrote."""
    messages = row.get("messages") or row["prompt"]
    return str([message["content"] for message in messages if message["role"] == "user"][-1])


@pytest.mark.parametrize("name", WRITTEN)
def test_an_example_s_script_writes_the_files_that_ship(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = script(name)
    for sources in (EXAMPLES / name / file for file in ("situations.json", "instructions.txt")):
        if sources.exists():
            (tmp_path / sources.name).write_bytes(sources.read_bytes())
    monkeypatch.setattr(made, "HERE", tmp_path)
    made.main()
    for file in WRITTEN[name]:
        assert (tmp_path / file).read_bytes() == (EXAMPLES / name / file).read_bytes()


@pytest.mark.parametrize("name", WRITTEN)
def test_no_held_out_row_is_asked_in_training(name: str):
    training, *others = (rows(EXAMPLES / name / file) for file in WRITTEN[name])
    assert {asked(row) for row in training}.isdisjoint(asked(row) for held_out in others for row in held_out)


def test_every_sum_is_right():
    for row in rows(EXAMPLES / "sums" / "train.jsonl") + rows(EXAMPLES / "sums" / "eval.jsonl"):
        left, right = map(int, asked(row).split(" + "))
        assert row["messages"][-1]["content"] == f"#### {left + right}"


def test_a_judge_is_trained_on_what_it_is_asked_and_its_verdicts_are_read():
    told = (EXAMPLES / "judging" / "instructions.txt").read_text(encoding="utf-8").strip()
    taught = {}
    for file in ("train.jsonl", "held-out.jsonl"):
        found = rows(EXAMPLES / "judging" / file)
        shown = [json.loads(asked(row)) for row in found]
        for row, one in zip(found, shown, strict=True):
            prompt = [{"role": "user", "content": one["input"]}]
            assert judge_messages(told, prompt, one["output"], one["outputCalls"]) == row["messages"][:2]
        scores = [read_judgement(row["messages"][2]["content"]).score for row in found]
        assert scores.count(1.0) == scores.count(0.0) == len(found) / 2
        taught[file] = {one["input"] for one in shown}
    assert taught["train.jsonl"].isdisjoint(taught["held-out.jsonl"])
    assert {asked(row) for row in rows(EXAMPLES / "judging" / "asked.jsonl")} == taught["held-out.jsonl"]
