"""Runs over prepared token rows: the template they were rendered under is the run's, or no device is claimed."""

import json
from pathlib import Path

import pytest

from datasets.models import ExampleSet
from datasets.operations import register_dataset
from datasets.plan import dataset_part
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.models import Attempt
from registry.models import BaseModel, Version
from runs.errors import RunRefused
from runs.lengths_text import lengths_rows
from runs.models import Run
from runs.operations import advance_run, check_run, submit_run
from runs.work import RunWork
from tests import factories as make
from tests.archives import DESCRIPTOR, archive, token_rows

pytestmark = [pytest.mark.django_db, pytest.mark.requirement("R325")]
LONG = json.loads((Path(__file__).resolve().parents[1] / "length_refusals.json").read_text())["prepared"]
MADE_UNDER, OTHER = "1" * 64, "2" * 64


@pytest.fixture
def box(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make.make_device("cpu")
    make.make_workload()
    make.make_dataset("triage/train", 4)
    made = {"tokenizer": {"repository": make.TINY, "revision": "r"}, "chatTemplateSha256": MADE_UNDER, "longestRow": 9}
    ExampleSet.objects.update(format="prepared-tokens-v1", details=made)
    Version.objects.filter(format="chat-jsonl-v1").update(format="prepared-tokens-v1")


def base_model(template, phase="READY"):
    return make.make_base_model(phase=phase, facts={"chatTemplateSha256": template} if template else {})


def test_a_run_under_another_template_is_refused_when_it_is_submitted_and_in_the_dry_run(box):
    base_model(OTHER)
    (told,) = check_run(make.run_document(), actor=LOCAL)["problems"]
    with pytest.raises(RunRefused) as refused:
        submit_run(make.run_document(), actor=LOCAL)
    assert told["code"] == "prepared_under_another_template"
    assert told["message"] == refused.value.detail
    assert all(words in told["message"] for words in ("triage/train:v1", MADE_UNDER, OTHER))


def test_a_template_known_only_once_the_base_model_is_ready_is_compared_before_a_device_is_claimed(box):
    base_model("", phase="PENDING")
    run = submit_run(make.run_document(), actor=LOCAL).run
    advance_run(run.pk)
    assert Run.objects.get().phase == "AWAITING_BASE_MODEL"
    BaseModel.objects.update(phase="READY", facts={"chatTemplateSha256": OTHER})
    advance_run(run.pk)
    run = Run.objects.get()
    assert (run.phase, run.failure_code) == ("FAILED", "prepared_under_another_template")
    assert MADE_UNDER in run.failure_reason
    assert not Attempt.objects.exists()


def test_a_run_under_the_same_template_goes_on_to_wait_for_a_device_and_its_job_is_told_what_made_the_rows(box):
    base_model(MADE_UNDER)
    run = submit_run(make.run_document(), actor=LOCAL).run
    advance_run(run.pk)
    attempt = make.claim_job()
    plan = RunWork().plan(RunWork().get(run.pk), attempt)
    assert plan["dataset"]["format"] == "prepared-tokens-v1"
    assert plan["dataset"]["prepared"]["chatTemplateSha256"] == MADE_UNDER
    assert plan["dataset"]["prepared"]["tokenizer"]["repository"] == make.TINY


def files_of(lengths):
    """Files of rows with so many tokens, by their names."""
    return {name: token_rows([([5] * tokens, [0] * (tokens - 1) + [1]) for tokens in rows])
            for name, rows in lengths.items()}


@pytest.mark.requirement("R104")
@pytest.mark.parametrize("case", LONG, ids=lambda case: case["name"])
def test_prepared_rows_that_are_too_long_are_refused_at_submission_in_the_words_of_the_job(box, case):
    make.make_base_model(facts={"chatTemplateSha256": DESCRIPTOR["chatTemplateSha256"]})
    made = DESCRIPTOR | {"tokenizer": {"repository": make.TINY, "revision": "r"}}
    register_dataset("triage/long", [archive({"prepared.json": made} | files_of(case["files"]))], actor=LOCAL)
    config = {"dataset": "triage/long", "maxSeqLength": case["limit"], "data": {"truncation": case["truncation"]}}
    (told,) = check_run(make.run_document(config=config), actor=LOCAL)["problems"]
    assert (told["path"], told["code"], told["hint"]) == ("config.dataset", case["code"], case["hint"])
    assert told["message"] == f"{case['reason']}. Counted when triage/long:v1 was registered."


@pytest.mark.requirement("R123")
def test_the_dry_run_counts_prepared_rows_that_are_longer_unless_an_earlier_version_registered_them(box):
    base_model(MADE_UNDER)
    for counted, over, words in (({"lengths": [[300, 3], [700, 1]], "longestRows": []}, 1, "1 row longer than 512"),
                                 ({}, None, "only the longest is known")):
        ExampleSet.objects.update(details={"longestRow": 700} | counted)
        config = {"maxSeqLength": 512, "data": {"truncation": "drop"}}
        found = check_run(make.run_document(config=config), actor=LOCAL)
        shown = " ".join(str(value) for _, value in lengths_rows(found["resolved"]["lengths"]))
        assert found["resolved"]["lengths"]["training"]["over"] == over
        assert "4 rows, longest 700 tokens" in shown and words in shown


def test_a_job_is_told_what_the_files_of_prepared_rows_are_called(box):
    files = files_of({"b.parquet": [3], "a.parquet": [2]})
    done = register_dataset("triage/named", [archive({"prepared.json": DESCRIPTOR} | files)], actor=LOCAL)
    assert dataset_part(done.examples, name="d")["prepared"] == DESCRIPTOR | {"files": ["a.parquet", "b.parquet"]}
