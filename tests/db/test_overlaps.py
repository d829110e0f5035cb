"""Rows to train on that ask what rows to judge by ask: over registered datasets, in the dry run, from the command."""

import json
import shutil
from itertools import count, islice

import pytest

from datasets import overlaps
from datasets.errors import RowsNotComparable
from datasets.models import ExampleSet
from datasets.row_pages import Budget
from optimize_site.kernel.conf import home
from tests import factories as make
from tests.archives import items

pytestmark = pytest.mark.django_db
LONG = "my parcel was sent to the old address although I changed it in the app last week {} and nobody answers"


def rows(*asked):
    return b"\n".join(json.dumps({"messages": [{"role": "user", "content": text},
                                               {"role": "assistant", "content": "ok"}]}).encode() for text in asked)


@pytest.fixture
def sets():
    shutil.rmtree(home() / "overlaps", ignore_errors=True)
    judged = make.make_dataset("triage/eval", rows("where is it?", LONG.format("already"), "unrelated to all others"))
    training = make.make_dataset("triage/train", rows("a", "b", "WHERE  is it?", "c", LONG.format("now")))
    return training, judged


def found(document):
    return [(pair["position"], pair["evaluationPosition"])
            for pair in (*document["exact"]["first"], *document["near"]["first"])]


def test_exact_and_near_rows_are_named_on_both_sides(sets):
    document = overlaps.compare(*sets)
    assert found(document) == [(2, 0), (4, 1)]
    assert (document["exact"]["rows"], document["near"]["rows"]) == (1, 1)
    assert document["coverage"] == {"read": 5, "total": 5, "evaluationRead": 3, "evaluationTotal": 3,
                                    "complete": True, "note": "", "isOver": True}
    assert (document["training"], document["evaluation"]) == ("triage/train:v1", "triage/eval:v1")


def test_each_request_goes_on_where_the_one_before_stopped(sets):
    asked = 0
    while True:
        document = overlaps.compare(*sets, Budget(num_bytes=1))
        asked += 1
        if document["coverage"]["isOver"]:
            break
        assert document["coverage"]["read"] == asked and "rest may differ" in document["coverage"]["note"]
    assert asked == 5
    assert found(document) == [(2, 0), (4, 1)]
    assert overlaps.compare(*sets, Budget(num_bytes=0)) == document


def test_a_request_compares_for_as_long_as_reading_the_rows_to_judge_by_took_it(sets, monkeypatch):
    seconds = count()
    judged = overlaps._judged
    asked = []
    for reading in (0, 2):
        shutil.rmtree(home() / "overlaps", ignore_errors=True)
        monkeypatch.setattr(overlaps, "_judged", lambda *of, took=reading: [judged(*of), *islice(seconds, took)][0])
        asked.append(overlaps.compare(*sets, Budget(clock=lambda: next(seconds)))["coverage"]["read"])
    assert asked == [2, 4]


def test_what_an_earlier_way_of_comparing_found_is_compared_again(sets, monkeypatch):
    overlaps.compare(*sets)
    monkeypatch.setattr(overlaps, "METHOD", overlaps.METHOD + 1)
    assert overlaps.compare(*sets, Budget(num_bytes=1))["coverage"]["read"] == 1


def test_a_quick_look_reads_a_sample_until_all_was_compared(sets, monkeypatch):
    monkeypatch.setattr(overlaps, "QUICK_ROWS", 3)
    quick = overlaps.compare_quickly(*sets)
    assert (quick["coverage"]["read"], quick["coverage"]["complete"]) == (3, False)
    assert "Compared 3 of 5 rows" in quick["coverage"]["note"]
    overlaps.compare(*sets)
    assert overlaps.compare_quickly(*sets)["coverage"]["complete"]


def test_token_rows_cannot_be_compared(sets):
    training, judged = sets
    ExampleSet.objects.filter(pk=training.content_hash).update(format="prepared-tokens-v1")
    with pytest.raises(RowsNotComparable):
        overlaps.compare(training, judged)
    assert overlaps.compare_quickly(training, judged) is None


def test_items_are_looked_for_as_rows_and_those_that_ask_otherwise_are_left_out(sets):
    otherwise = '{"input": "?"}\n{"messages": [{"role": "user", "content": 5}]}\n'
    asked = rows(LONG.format("already")).decode()
    judged = make.make_dataset("triage/items", items(**{"items.jsonl": otherwise + asked}))
    assert found(overlaps.compare(sets[0], judged)) == [(4, 2)]
    with pytest.raises(RowsNotComparable):
        overlaps.compare(judged, sets[0])


@pytest.fixture
def ready(sets):
    make.make_device()
    make.make_base_model()
    return make.make_workload("triage", dataset="triage/eval", grader="json-label-match")


def check(**config):
    from optimize_site.kernel.auth import LOCAL
    from runs.operations import check_run

    return check_run(make.run_document(config=config), actor=LOCAL)["diagnostics"]


def test_the_dry_run_names_leaked_rows_for_the_evaluation_and_the_validation_data(ready):
    leak, = check(data={"validationDataset": "triage/eval"})["leakage"]
    assert leak["as"] == ["evaluation", "validation"]
    assert found(leak) == [(2, 0), (4, 1)]
    make.make_dataset("triage/held-out", rows("something new", "a"))
    both = check(data={"validationDataset": "triage/held-out"})["leakage"]
    assert [(leak["as"], leak["exact"]["rows"]) for leak in both] == [(["evaluation"], 1), (["validation"], 1)]


def test_the_dry_run_says_it_in_words(ready):
    from runs.text import diagnostics_rows

    said = dict(diagnostics_rows(check()))["Leakage"]
    assert "1 training row asks what a row of triage/eval:v1 asks (row 2 = 0)" in said
    assert "1 training row asks nearly what a row of triage/eval:v1 asks (row 4 ≈ 1)" in said
    make.make_dataset("triage/clean", rows("x", "y"))
    assert "No training row asks" in dict(diagnostics_rows(check(dataset="triage/clean")))["Leakage"]


def test_a_run_over_token_rows_has_no_findings(ready, sets):
    training, _ = sets
    type(training).objects.filter(pk=training.pk).update(format="prepared-tokens-v1")
    assert check() is None


def test_the_command_compares_to_the_end(sets, capsys, monkeypatch):
    from datasets.management.commands.datasets import Command

    assert Command().run(["overlap", "triage/train", "triage/eval", "-o", "json"]) == 0
    assert found(json.loads(capsys.readouterr().out)) == [(2, 0), (4, 1)]
    assert Command().run(["overlap", "triage/train", "triage/eval"]) == 0
    shown = capsys.readouterr().out
    assert "all 5 rows with all 3" in shown and "1 rows, of 1 evaluation rows" in shown
    assert Command().run(["overlap", "triage/train", "triage/nothing"]) == 4
