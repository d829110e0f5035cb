"""Prepared token rows: trained as they stand, checked against the run's tokenizer and template before anything."""

import json
from pathlib import Path

import jobs
import pyarrow
import pytest
import tiny
from optimize_child.failures import JobFailure
from optimize_child.job import Job
from optimize_child.reading.run_rows import read_run_rows
from optimize_child.reading.token_rows import IGNORED
from optimize_child.rendering.template import ChatTemplate
from pyarrow import parquet

CASES = json.loads((Path(__file__).resolve().parents[1] / "token_row_cases.json").read_text())
LENGTHS = json.loads((Path(__file__).resolve().parents[1] / "length_refusals.json").read_text())["prepared"]
GOOD = ([1, 5, 6, 7, 2], [0, 0, 1, 1, 1])
LONG = (list(range(3, 83)), [0] * 79 + [1])


@pytest.fixture
def read(tmp_path, base_model, tokenizer):
    """The rows of a run over Parquet files, each given as a list of (input_ids, loss_mask)."""

    def read(*files, names=(), made=None, **changes):
        paths = []
        for number, rows in enumerate(files):
            paths.append(tmp_path / f"{number}-{len(list(tmp_path.iterdir()))}")
            ids, masks = zip(*rows, strict=True)
            columns = {"input_ids": pyarrow.array(ids, pyarrow.list_(pyarrow.int32())), "loss_mask": list(masks)}
            parquet.write_table(pyarrow.table({**columns, "other": ["x"] * len(ids)}), paths[-1])
        plan = tiny.sft_plan(base_model, paths, **{"config.maxSeqLength": 64, **changes})
        named = {"files": list(names) or [f"part-{number}.parquet" for number in range(len(files))]}
        plan["dataset"] |= {"format": "prepared-tokens-v1", "name": "acme/tokens:v1", "prepared": (made or {}) | named}
        job = Job(jobs.prepare(tmp_path / f"attempt-{len(list(tmp_path.iterdir()))}", plan))
        return read_run_rows(job, ChatTemplate(tokenizer)).training

    return read


@pytest.mark.requirement("R325")
def test_prepared_rows_are_trained_as_they_stand_in_the_order_of_their_files(read):
    rows = read([GOOD, ([1, 9, 9], [0, 1, 0])], [GOOD])
    assert len(rows) == 3
    ids, labels = rows.row(1)
    assert (ids.tolist(), labels.tolist()) == ([1, 9, 9], [IGNORED, 9, IGNORED])
    assert rows.trained_tokens() == 7


def test_a_run_trains_on_prepared_rows_from_start_to_end(tmp_path, base_model):
    path = tmp_path / "rows"
    ids, masks = zip(*[GOOD] * 8, strict=True)
    parquet.write_table(pyarrow.table({"input_ids": list(ids), "loss_mask": list(masks)}), path)
    plan = tiny.sft_plan(base_model, [path])
    plan["dataset"]["format"] = "prepared-tokens-v1"
    attempt = jobs.run(tmp_path / "attempt", plan)
    assert tiny.read_events(attempt)[-1]["type"] == "finished"
    (fit,) = tiny.events_of(attempt, "data_fit")
    assert (fit["rows"], fit["trainedTokens"]) == (8, 24)


@pytest.mark.requirement("R325")
@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"chatTemplateSha256": "1" * 64}, ["acme/tokens:v1", "1" * 64, "the run renders under"]),
        ({"tokenizer": {"repository": "other/model"}}, ["acme/tokens:v1", "other/model", "test/tiny"]),
    ],
)
def test_rows_made_for_another_template_or_tokenizer_are_refused_naming_both(read, tokenizer, made, words):
    with pytest.raises(JobFailure) as info:
        read([GOOD], made=made)
    assert all(word in info.value.reason for word in words)
    if "chatTemplateSha256" in made:
        assert ChatTemplate(tokenizer).sha256 in info.value.reason


@pytest.mark.requirement("R325")
def test_rows_made_under_the_runs_own_template_are_trained(read, tokenizer):
    made = {"chatTemplateSha256": ChatTemplate(tokenizer).sha256, "tokenizer": {"repository": "test/tiny"}}
    assert len(read([GOOD], made=made)) == 1


@pytest.mark.requirement("R104")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_row_that_cannot_be_trained_on_is_named_by_its_place_in_the_words_of_the_table(read, case):
    with pytest.raises(JobFailure) as info:
        read([GOOD], [GOOD, (case["tokens"], case["mask"])])
    assert info.value.code == "bad_row"
    assert info.value.evidence["rows"] == [{"line": "row 2 of part-1.parquet", "reason": " ".join(case["messages"])}]


def test_a_token_that_the_model_does_not_know_is_named(read, tokenizer):
    known = len(tokenizer)
    reason = f"The row holds the token {known}; the model's vocabulary has {known}."
    read([GOOD, ([1, known - 1], [0, 1])])
    with pytest.raises(JobFailure, match=reason):
        read([GOOD, ([1, known], [0, 1])])


@pytest.mark.requirement("R091", "R095", "R096")
def test_long_prepared_rows_are_refused_or_left_out_by_the_same_rule_as_chat_rows(read):
    with pytest.raises(JobFailure, match=r"1 row longer than maxSeqLength 64: row 2 of part-0.parquet \(80 tokens\)"):
        read([GOOD, LONG])
    dropped = read([GOOD, LONG], **{"config.data.truncation": "drop"})
    assert (len(dropped), dropped.too_long) == (1, 1)
    with pytest.raises(JobFailure, match="No row of the training dataset is left"):
        read([LONG], **{"config.data.truncation": "drop"})


@pytest.mark.requirement("R104")
@pytest.mark.parametrize("case", LENGTHS, ids=lambda case: case["name"])
def test_prepared_rows_that_are_too_long_are_refused_in_the_words_of_a_submission(read, case):
    files = [[([5] * tokens, [0] * (tokens - 1) + [1]) for tokens in rows] for rows in case["files"].values()]
    settings = {"config.maxSeqLength": case["limit"], "config.data.truncation": case["truncation"]}
    with pytest.raises(JobFailure) as info:
        read(*files, names=case["files"], **settings)
    assert (info.value.code, info.value.hint) == (case["code"], case["hint"])
    assert info.value.reason.rstrip(".") == case["reason"]
