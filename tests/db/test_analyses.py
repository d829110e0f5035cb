"""Analyses of datasets: started once, run on the host, kept, started again where that can help, and read."""

import json

import pytest

from datasets.analyses import operations, queries, render
from datasets.analyses.errors import AnalysisEnded, BaseModelUnusable, NotAnalysable
from datasets.models import Analysis, ExampleSet
from gpu_worker.engines.plans import complete
from gpu_worker.kinds import KINDS
from optimize_site.kernel import box
from optimize_site.kernel.auth import LOCAL, Actor
from optimize_site.kernel.errors import Forbidden
from registry.base_model_queries import get_base_model
from registry.models import BaseModel
from tests import factories as make

pytestmark = pytest.mark.django_db
VIEWER = Actor("vera", "viewer")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def dataset():
    make.make_device("cpu")
    make.make_device("host", kind="host", profile="host")
    make.make_base_model()
    return make.make_dataset("triage/train", 4)


def start(dataset, actor=LOCAL):
    examples = ExampleSet.objects.get(pk=dataset.content_hash)
    return operations.start_analysis(examples, get_base_model(make.TINY), actor=actor)


def fail(code, reason="It broke."):
    make.run_job({"type": "failure", "code": code, "reason": reason, "hint": "Mend it."}, outcome="failed",
                 device="host")


# Where it runs -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R343")
def test_an_analysis_runs_on_the_host_and_never_on_a_device_that_trains(dataset):
    started = start(dataset).analysis
    assert make.claim_job("cpu") is None
    assert make.claim_job("host").holder_id == started.pk


@pytest.mark.requirement("R343")
def test_the_host_is_no_device_that_people_see_or_runs_can_name(dataset):
    assert [device["uuid"] for device in box.describe()["devices"]] == ["cpu"]
    assert [pool["pool"] for pool in box.capacity()["pools"]] == ["cpu"]
    refused = make.run_document(execution={"deviceProfile": "host"})
    make.make_workload()
    from runs.operations import check_run

    problems = check_run(refused, actor=LOCAL)["problems"]
    assert "this box has cpu" in next(found["message"] for found in problems
                                      if found["path"] == "execution.deviceProfile")


def test_a_base_model_is_prepared_on_the_host_and_answers_never_are(dataset):
    make.make_base_model("acme/other", phase="PENDING")
    host, cpu = make.claim_job("host"), make.claim_job("cpu")
    assert (host.holder_kind, cpu) == ("base_model", None)
    assert list(KINDS["evaluation"].waiting(host.lease.device)) == []


def test_its_plan_is_complete_and_names_the_rows_the_model_and_the_folder(dataset):
    analysis = start(dataset).analysis
    attempt = make.claim_job("host")
    plan = complete(KINDS["analysis"].plan(queries.get_analysis(analysis.pk), attempt), attempt=attempt.pk,
                    subject={"kind": "analysis", "id": analysis.pk}, threads=1, device={"kind": "cpu", "uuids": []})
    assert (plan["entry"], plan["dataset"]["num_examples"], plan["dataset"]["format"]) == ("analyse", 4,
                                                                                           "chat-jsonl-v1")
    assert plan["base_model"]["revision"] == "rev-1"
    assert plan["out"].endswith(analysis.pk)
    assert plan["template_origin"] == "shipped"


# One for each set of examples, commit and version --------------------------------------------------------------------


@pytest.mark.requirement("R345")
def test_names_and_versions_with_the_same_examples_share_one_analysis(dataset):
    other = make.make_dataset("triage/copy", make.chat_rows(4, salt="triage/train"))
    assert other.content_hash == dataset.content_hash
    assert start(dataset).is_new
    again = start(other)
    assert (again.is_new, Analysis.objects.count()) == (False, 1)
    assert render.analysis_document(again.analysis)["datasets"] == ["triage/train:v1", "triage/copy:v1"]


@pytest.mark.requirement("R105", "R345")
def test_another_base_model_or_commit_or_version_of_the_product_is_another_analysis(dataset, monkeypatch):
    first = make.analyze(dataset, [10] * 4)
    make.make_base_model("acme/other", revision="rev-1")
    assert queries.find_analysis(dataset.content_hash, get_base_model("acme/other")) is None
    BaseModel.objects.update(revision="rev-2")
    assert start(dataset).is_new
    monkeypatch.setattr(operations, "VERSION", "9.9.9")
    monkeypatch.setattr(queries, "VERSION", "9.9.9")
    third = start(dataset)
    assert third.is_new
    assert Analysis.objects.count() == 3
    assert queries.get_analysis(first.pk).phase == "COMPLETED"


def test_a_finished_analysis_is_read_by_anybody_and_started_by_operators_only(dataset):
    with pytest.raises(Forbidden):
        start(dataset, VIEWER)
    kept = make.analyze(dataset, [10] * 4)
    assert start(dataset, VIEWER).analysis.pk == kept.pk


# How it goes ---------------------------------------------------------------------------------------------------------


def test_it_says_how_far_it_is_and_keeps_its_report(dataset):
    analysis = start(dataset).analysis
    attempt = make.claim_job("host")
    make.tell_job(attempt, {"type": "started", "pid": 1, "versions": {}},
                  {"type": "stage", "name": "measuring", "done": 2, "total": 4, "unit": "rows"})
    shown = render.analysis_document(queries.get_analysis(analysis.pk))
    assert (shown["status"], shown["progress"]["done"], shown["progress"]["total"]) == ("running", 2, 4)
    make.write_lengths(analysis, [10] * 4)
    make.tell_job(attempt, {"type": "finished", "report": make.analysis_report([10] * 4)})
    make.end_job(attempt)
    shown = render.analysis_document(queries.get_analysis(analysis.pk))
    assert (shown["status"], shown["report"]["rows"], shown["maxTokens"]) == ("done", 4, 10)


@pytest.mark.requirement("R345")
def test_one_that_failed_starts_again_unless_it_refused_the_data(dataset):
    first = start(dataset).analysis
    fail("unexpected")
    again = start(dataset)
    assert (again.analysis.pk, again.is_new, again.analysis.phase) == (first.pk, True, "PENDING")
    fail("bad_row", "1 row cannot be read. line 3: no JSON.")
    kept = start(dataset)
    assert (kept.is_new, kept.analysis.phase) == (False, "FAILED")
    shown = render.analysis_document(kept.analysis)
    assert (shown["mayStartAgain"], shown["attempt"]) == (False, 2)
    assert shown["failureReason"] == "1 row cannot be read. line 3: no JSON."


def test_one_whose_measurements_are_gone_is_unreadable_and_starts_again(dataset):
    analysis = make.analyze(dataset, [10] * 4)
    (queries.folder_of(analysis) / "lengths.bin").unlink()
    assert queries.status_of(analysis) == "unreadable"
    assert start(dataset).is_new


def test_a_job_that_keeps_dying_fails_it_and_one_that_was_stopped_does_not(dataset):
    analysis = start(dataset).analysis
    make.run_job(outcome="stopped", device="host")
    assert queries.get_analysis(analysis.pk).phase == "PENDING"
    for _ in range(5):
        make.run_job(outcome="lost", device="host")
    found = queries.get_analysis(analysis.pk)
    assert (found.phase, found.failure_code) == ("FAILED", "job_lost")


def test_cancelling_stops_one_that_waits_at_once_and_one_that_runs_through_its_job(dataset):
    waiting = operations.cancel_analysis(start(dataset).analysis, actor=LOCAL)
    assert waiting.phase == "CANCELLED"
    with pytest.raises(AnalysisEnded):
        operations.cancel_analysis(waiting, actor=LOCAL)
    running = start(dataset).analysis
    attempt = make.claim_job("host")
    operations.cancel_analysis(queries.get_analysis(running.pk), actor=LOCAL)
    assert KINDS["analysis"].ask(queries.get_analysis(running.pk)) == "stop"
    make.end_job(attempt, "stopped")
    assert queries.get_analysis(running.pk).phase == "CANCELLED"


# What is refused, and what is waited for -----------------------------------------------------------------------------


def test_prepared_rows_are_refused_with_the_reason(dataset):
    ExampleSet.objects.update(format="prepared-tokens-v1")
    with pytest.raises(NotAnalysable, match="tokens already"):
        start(dataset)


def test_a_base_model_that_nobody_chose_or_without_a_commit_is_refused(dataset):
    BaseModel.objects.update(phase="PENDING", revision="")
    with pytest.raises(BaseModelUnusable, match="resolves to no commit"):
        start(dataset)
    BaseModel.objects.update(phase="DESELECTED")
    with pytest.raises(BaseModelUnusable, match="Nobody has selected"):
        start(dataset)


def test_it_waits_for_a_base_model_whose_commit_is_known_and_fails_where_that_will_not_come(dataset):
    BaseModel.objects.update(phase="FETCHING")
    analysis = start(dataset).analysis
    operations.advance_all()
    assert make.claim_job("host") is None
    assert "being prepared" in queries.wait_reason(analysis)
    BaseModel.objects.update(phase="READY", revision="rev-2")
    operations.advance_all()
    found = queries.get_analysis(analysis.pk)
    assert (found.phase, found.failure_code) == ("FAILED", "base_model_moved")
    assert "rev-1" in found.failure_reason
    assert "rev-2" in found.failure_reason


# Single rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R349")
def test_rows_over_any_limit_are_counted_whole_and_trimmed_and_the_longest_are_named(dataset):
    analysis = make.analyze(dataset, [100, (900, 300), (700, 650), 40])
    lengths = queries.lengths_of(analysis)
    assert lengths.fit(500) == (4, 2, 1, 140, 440)
    assert lengths.longest(1, over=500) == [(1, 900)]
    assert lengths.longest(9, over=500, trimmed=True) == [(2, 650)]
    assert list(lengths.kept(500, trimmed=True)) == [100, 300, 40]
    assert list(lengths.kept(500, trimmed=False)) == [100, 40]
    assert list(lengths.cut(500)) == [100, 500, 500, 40]
    assert queries.lengths_of(analysis, 2).fit(500)[:3] == (2, 1, 0)


def test_a_row_is_named_by_its_line_blank_ones_counted_and_by_its_file_where_there_are_several(dataset):
    lines = make.chat_rows(3, salt="blank").splitlines(keepends=True)
    blank = make.make_dataset("triage/blank", b"\n" + lines[0] + b"\n\n" + lines[1] + lines[2])
    examples = ExampleSet.objects.get(pk=blank.content_hash)
    assert queries.places_of(examples, [0, 2]) == {0: "line 2", 2: "line 6"}
    shard = examples.shards[0]
    examples.shards = [shard | {"path": "examples-00000.jsonl"}, shard | {"path": "examples-00001.jsonl"}]
    assert queries.places_of(examples, [4]) == {4: "line 5 of examples-00001.jsonl"}


def test_a_document_is_json(dataset):
    json.dumps(render.analysis_document(make.analyze(dataset, [10] * 4)), default=str)
