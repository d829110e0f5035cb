"""What a job says of rows that it refuses, held by the table that the server's sentences are held by too."""

import json
from pathlib import Path

import pytest
from optimize_child.failures import JobFailure
from optimize_child.refusals import refuse_rows
from optimize_child.row_fit import LongRows
from optimize_child.tokens import CORRECT

WORDS = json.loads((Path(__file__).resolve().parents[1] / "length_refusals.json").read_text())


@pytest.mark.requirement("R104")
@pytest.mark.parametrize("case", WORDS["long"], ids=lambda case: f"{case['truncation']}-{case['count']}")
def test_rows_that_are_too_long_are_refused_in_the_words_of_the_table(case):
    long = LongRows(case["limit"], case["truncation"])
    for row in reversed(case["rows"]):
        long.add(row["tokens"], row["line"])
    with pytest.raises(JobFailure) as refused:
        long.refuse()
    assert (refused.value.reason, refused.value.hint) == (case["reason"], case["hint"])


@pytest.mark.parametrize("case", WORDS["bad"], ids=lambda case: str(case["count"]))
def test_rows_that_cannot_be_trained_on_are_refused_in_the_words_of_the_table(case):
    with pytest.raises(JobFailure) as refused:
        refuse_rows([(row["line"], row["reason"]) for row in case["rows"]], "cannot be trained on", CORRECT)
    assert refused.value.reason == case["reason"]
