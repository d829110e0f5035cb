"""Cutting a held-out part off a file."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.errors import DatasetInvalid, SplitImpossible
from datasets.rows import read_row
from datasets.splitting import Group, choose, prompt_key, split_file


def row(question, answer):
    return json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]})


def split(folder, lines, share=0.2, seed=0):
    (folder / "all.jsonl").write_text("\n".join(lines) + "\n")
    split_file(folder / "all.jsonl", folder / "train.jsonl", folder / "eval.jsonl", share=share, seed=seed)
    return [(folder / name).read_text().splitlines() for name in ("train.jsonl", "eval.jsonl")]


def test_every_answer_is_held_out_in_proportion(tmp_path):
    labels = ["billing"] * 50 + ["returns"] * 100 + ["account"] * 25
    lines = [row(f"question {number}", json.dumps({"queue": label, "n": 1})) for number, label in enumerate(labels)]
    train, held_out = split(tmp_path, lines)
    assert len(held_out) == 35
    counts = Counter(json.loads(json.loads(line)["messages"][1]["content"])["queue"] for line in held_out)
    assert counts == {"billing": 10, "returns": 20, "account": 5}
    assert sorted(train + held_out) == sorted(lines)
    assert held_out == [line for line in lines if line in set(held_out)]


def test_the_same_prompt_stays_on_one_side_however_it_is_written(tmp_path):
    lines = [row(text, f"answer {number % 7}") for number in range(40)
             for text in (f"Where is parcel {number}?", f"  where is\nPARCEL {number}?", f"Where is parcel {number}?")]
    train, held_out = split(tmp_path, lines)
    keys = [{prompt_key(read_row(line.encode())) for line in side} for side in (train, held_out)]
    assert not keys[0] & keys[1]
    assert 20 <= len(held_out) <= 28


def test_the_seed_chooses_other_rows_and_the_same_seed_the_same(tmp_path):
    lines = [row(f"question {number}", "yes") for number in range(50)]
    first, again, other = (split(tmp_path, lines, seed=seed)[1] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(first) == len(other) == 10


def test_a_number_of_rows_can_be_held_out(tmp_path):
    assert len(split(tmp_path, [row(f"q{number}", "a") for number in range(30)], share=7)[1]) == 7


def test_lines_are_written_as_they_were_without_blank_ones(tmp_path):
    body = b"\xef\xbb\xbf" + b"\r\n\r\n".join(row(f"é {number}", "a").encode() for number in range(4))
    (tmp_path / "all.jsonl").write_bytes(body)
    split_file(tmp_path / "all.jsonl", tmp_path / "t", tmp_path / "e", share=0.5)
    assert sorted((tmp_path / "t").read_bytes().splitlines() + (tmp_path / "e").read_bytes().splitlines()) == sorted(
        row(f"é {number}", "a").encode() for number in range(4))


def test_a_file_that_cannot_be_cut_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(SplitImpossible):
        split(tmp_path, [row("the same", "a")] * 10)
    with pytest.raises(DatasetInvalid):
        split(tmp_path, [row("a", "b"), "{}"])
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=60),
       st.floats(0.01, 0.99), st.integers(0, 3))
def test_what_is_held_out_is_never_far_from_the_share(shapes, share, seed):
    groups, position = [], 0
    for label, size in shapes:
        groups.append(Group(label, list(range(position, position + size))))
        position += size
    chosen = choose(groups, share, seed)
    assert abs(len(chosen) - share * position) <= 4
    assert all(len(chosen & set(group.rows)) in (0, len(group.rows)) for group in groups)
