"""What a job says of rows that it refuses, held by the table that the server's sentences are held by too."""

import json
from pathlib import Path

import pytest
from optimize_child.failures import JobFailure
from optimize_child.reading.refusals import NAMED_ROWS, RefusedRows, refuse_rows, refuse_untrained_rows
from optimize_child.reading.row_fit import LongRows
from optimize_child.reading.tokens import CORRECT

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
    bad = RefusedRows()
    for row in case["rows"]:
        bad.add(row["line"], row["reason"])
    with pytest.raises(JobFailure) as refused:
        refuse_rows(bad, "cannot be trained on", CORRECT)
    assert refused.value.reason == case["reason"]


@pytest.mark.parametrize("refuse", [lambda rows: refuse_rows(rows, "cannot be trained on", CORRECT),
                                    refuse_untrained_rows], ids=["bad", "empty"])
def test_of_very_many_refused_rows_only_those_that_are_named_are_held(refuse):
    rows = RefusedRows()
    for number in range(1, 100_001):
        rows.add(f"line {number}", "not this one")
    assert len(rows.named) == NAMED_ROWS
    with pytest.raises(JobFailure) as refused:
        refuse(rows)
    assert "100000 rows" in refused.value.reason and refused.value.reason.endswith(" and 99980 more")
    assert refused.value.evidence["count"] == 100_000 and len(refused.value.evidence["rows"]) == NAMED_ROWS
