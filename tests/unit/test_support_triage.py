"""The support-triage example keeps what its README promises."""

import importlib.util
import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "catalogs" / "examples" / "support-triage"
SPLITS = ["train.jsonl", "eval.jsonl"]
QUEUES = {"billing", "shipping", "returns", "technical", "account"}
PRIORITIES = {"low", "normal", "high"}


@cache
def load_maker() -> ModuleType:
    """The script of the example, which no package holds."""
    spec = importlib.util.spec_from_file_location("support_triage_make", EXAMPLE / "make.py")
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def rows_of(split: str) -> list[dict]:
    return [json.loads(line) for line in (EXAMPLE / split).read_text(encoding="utf-8").splitlines()]


def tickets_of(split: str) -> list[str]:
    return [row["messages"][1]["content"] for row in rows_of(split)]


def answers_of(split: str) -> list[str]:
    return [row["messages"][2]["content"] for row in rows_of(split)]


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def phrases_of(split: str) -> set[tuple[str, ...]]:
    words = [words_of(ticket) for ticket in tickets_of(split)]
    return {tuple(row[at : at + 6]) for row in words for at in range(len(row) - 5)}


def test_both_splits_are_large_enough():
    assert len(rows_of("train.jsonl")) >= 640
    assert len(rows_of("eval.jsonl")) >= 160


@pytest.mark.parametrize("split", SPLITS)
def test_every_row_is_a_system_prompt_a_ticket_and_an_answer(split: str):
    for row in rows_of(split):
        assert list(row) == ["messages"]
        assert [list(message) for message in row["messages"]] == [["role", "content"]] * 3
        assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]


def test_all_rows_share_one_system_prompt():
    prompts = {row["messages"][0]["content"] for split in SPLITS for row in rows_of(split)}
    assert len(prompts) == 1
    assert set(words_of(prompts.pop())) >= QUEUES | PRIORITIES


@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_holds_exactly_the_two_labels(split: str):
    for answer in answers_of(split):
        labels = json.loads(answer)
        assert list(labels) == ["queue", "priority"]
        assert labels["queue"] in QUEUES
        assert labels["priority"] in PRIORITIES
        assert answer == json.dumps(labels, separators=(",", ":"))


@pytest.mark.parametrize("split", SPLITS)
def test_each_pair_of_labels_has_its_share(split: str):
    pairs = Counter(answers_of(split))
    assert len(pairs) == len(QUEUES) * len(PRIORITIES)
    assert all(0.04 <= count / pairs.total() <= 0.10 for count in pairs.values())


@pytest.mark.parametrize("split", SPLITS)
def test_tickets_have_readable_lengths(split: str):
    lengths = [len(ticket.split()) for ticket in tickets_of(split)]
    assert min(lengths) >= 6
    assert max(lengths) <= 90


def test_no_ticket_occurs_twice():
    fingerprints = Counter(" ".join(words_of(ticket)) for split in SPLITS for ticket in tickets_of(split))
    assert [text for text, count in fingerprints.items() if count > 1] == []


def test_the_splits_share_no_run_of_six_words():
    assert phrases_of("train.jsonl") & phrases_of("eval.jsonl") == set()


def test_the_script_writes_the_same_bytes_again():
    built = load_maker().build()
    assert sorted(built) == sorted(SPLITS)
    assert all((EXAMPLE / name).read_bytes() == content for name, content in built.items())


def test_the_script_refuses_a_phrase_in_both_splits(monkeypatch: pytest.MonkeyPatch):
    maker = load_maker()
    scenarios = maker.read_tickets("scenarios.txt")
    monkeypatch.setattr(maker, "read_tickets", lambda name: scenarios)
    with pytest.raises(SystemExit, match="Both splits contain"):
        maker.build()


def test_the_run_trains_on_this_dataset():
    run = json.loads((EXAMPLE / "run.json").read_text(encoding="utf-8"))
    assert (run["kind"], run["workload"]) == ("run", "support-triage")
    assert run["config"]["dataset"] == "support-triage/train"
    training = run["config"]["hyperparams"]["training"]
    updates = training["maxSteps"] * training["microBatchPerGpu"] * training["gradientAccumulation"]
    assert updates <= len(rows_of("train.jsonl"))
