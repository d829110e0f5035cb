"""The examples that ship: written by their scripts to the byte, nothing held out shown in training."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from optimize_site.appliance.places import CHECKOUT

EXAMPLES = CHECKOUT / "catalogs" / "examples"
WRITTEN = {"sums": ("train.jsonl", "eval.jsonl"), "replies": ("train.jsonl", "held-out.jsonl")}


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
    sources = EXAMPLES / name / "situations.json"
    if sources.exists():
        (tmp_path / sources.name).write_bytes(sources.read_bytes())
    monkeypatch.setattr(made, "HERE", tmp_path)
    made.main()
    for file in WRITTEN[name]:
        assert (tmp_path / file).read_bytes() == (EXAMPLES / name / file).read_bytes()


@pytest.mark.parametrize("name", WRITTEN)
def test_no_held_out_row_is_asked_in_training(name: str):
    training, held_out = (rows(EXAMPLES / name / file) for file in WRITTEN[name])
    assert {asked(row) for row in training}.isdisjoint(asked(row) for row in held_out)


def test_every_sum_is_right():
    for row in rows(EXAMPLES / "sums" / "train.jsonl") + rows(EXAMPLES / "sums" / "eval.jsonl"):
        left, right = map(int, asked(row).split(" + "))
        assert row["messages"][-1]["content"] == f"#### {left + right}"
