"""Submitting runs: dry runs, admission, submissions that reach the same run, earlier runs of a recipe."""

import threading

import pytest
from django.db import connection
from django.utils import timezone

from datasets.models import ExampleSet
from datasets.stored_rows import sampled_rows
from optimize_site.kernel import scores
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import Forbidden
from optimize_site.kernel.models import Event, Lease
from registry.models import BaseModel, Namespace, Workload
from runs import text
from runs.errors import RunRefused, SubmissionConflict
from runs.models import Run
from runs.operations import check_run, submit_run
from tests.db.submitted.submitting import VIEWER, check, problems_of, submit
from tests.factories import TINY, chat_rows, make_dataset, run_document

pytestmark = pytest.mark.django_db


# Dry run -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R113", "R116", "R118")
def test_a_dry_run_tells_what_would_train_and_starts_nothing(ready):
    found = check()
    assert (found["valid"], found["problems"]) == (True, [])
    assert found["resolved"]["config"]["hyperparams"]["lora"]["rank"] == 8
    assert found["resolved"]["execution"]["saveEvery"] is None
    assert found["references"]["dataset"]["reference"] == "triage/train:v1"
    assert (Run.objects.count(), Lease.objects.count(), Event.objects.filter(subject_kind="run").count()) == (0, 0, 0)


@pytest.mark.requirement("R117")
def test_the_dry_run_resolves_to_what_the_started_run_records(ready):
    found, run = check(), submit()
    run.refresh_from_db()
    assert (found["resolved"]["config"], found["resolved"]["execution"]) == (run.config, run.execution)
    assert found["configHash"] == run.config_hash


def test_a_refused_dry_run_says_everything_and_still_resolves(ready):
    found = check(workload="nobody", config={"dataset": "nothing", "maxSeqLength": -1}, baseModel="acme/unknown")
    assert not found["valid"]
    assert found["configHash"] is None
    assert {problem["path"] for problem in found["problems"]} == {"workload", "config.dataset", "config.maxSeqLength",
                                                                  "baseModel"}
    assert found["resolved"]["config"]["maxSeqLength"] == 2048


def test_findings_cover_the_whole_dataset_where_it_is_small(ready):
    make_dataset("triage/doubled", chat_rows(5) + chat_rows(5))
    found = check(config={"dataset": "triage/doubled"})["diagnostics"]
    assert found["coverage"] == {"read": 10, "total": 10, "complete": True, "note": ""}
    assert found["duplicates"]["rows"] == 5
    assert found["duplicates"]["first"][0] == {"position": 5, "sameAs": 0}
    assert found["shapes"] == [{"roles": "user assistant", "rows": 10}]


@pytest.mark.requirement("R126")
def test_findings_over_a_large_dataset_say_how_much_was_read(ready, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_EXAMPLES", "4")
    coverage = check()["diagnostics"]["coverage"]
    assert (coverage["read"], coverage["total"], coverage["complete"]) == (4, 16, False)
    assert "may differ" in coverage["note"]
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_EXAMPLES", "1000")
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_BYTES", "300")
    assert check()["diagnostics"]["coverage"]["read"] < 16


@pytest.mark.requirement("R126")
def test_findings_over_many_shards_read_all_within_the_limits_and_else_the_first_rows_of_sixteen(ready, monkeypatch):
    examples = ExampleSet.objects.get()
    shards = [examples.shards[0] | {"path": f"examples-{number:05d}.jsonl"} for number in range(20)]
    ExampleSet.objects.update(shards=shards, num_examples=20 * 16)
    assert check()["diagnostics"]["coverage"]["complete"]
    monkeypatch.setenv("OPTIMIZE_TRAINER_DRY_RUN_MAX_EXAMPLES", "48")
    found = check()["diagnostics"]
    assert (found["coverage"]["read"], found["coverage"]["total"]) == (16 * 3, 20 * 16)
    assert found["duplicates"]["first"][0] == {"position": 16, "sameAs": 0}
    read = sampled_rows(ExampleSet.objects.get(), 48, 1 << 20)
    assert sorted({row.position // 16 for row in read}) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18]
    rows = text.diagnostics_rows(found)
    assert rows[0][1] == "Read 48 of 320 examples for these findings; the rest may differ."
    assert [label for label, _ in rows].index("Read") < [label for label, _ in rows].index("Duplicates")


@pytest.mark.requirement("R127")
def test_an_unmeasured_run_is_warned_of_everywhere_and_keeps_the_warning(ready):
    run = submit()
    assert [warning["code"] for warning in check()["warnings"]] == ["unmeasured_envelope"]
    assert [warning["code"] for warning in run.warnings] == ["unmeasured_envelope"]


def test_a_viewer_may_try_a_descriptor_and_start_nothing(ready):
    assert check_run(run_document(), actor=VIEWER)["valid"]
    with pytest.raises(Forbidden):
        submit_run(run_document(), actor=VIEWER)


# Admission -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R038", "R051", "R085")
def test_what_a_descriptor_names_must_exist(ready):
    assert problems_of(workload="nobody") == {"workload": "unknown_workload"}
    assert problems_of(config={"dataset": "nothing"}) == {"config.dataset": "unknown_reference"}
    assert problems_of(config={"data": {"validationDataset": "nothing"}}) == {
        "config.data.validationDataset": "unknown_reference"}


@pytest.mark.requirement("R038", "R051")
def test_workload_and_dataset_are_named_in_every_way(ready):
    workload, version = Workload.objects.get(), make_dataset()
    hashes = {check(config={"dataset": name})["configHash"]
              for name in ("train", "triage/train", "triage/train:v1", version.content_hash, version.content_hash[:12])}
    assert len(hashes) == 1
    assert None not in hashes
    assert check(workload=workload.pk)["valid"]
    assert check(workload=workload.pk[:10])["valid"]


@pytest.mark.requirement("R039")
def test_the_base_model_may_be_the_workload_s(ready):
    body = run_document()
    del body["baseModel"]
    (problem,) = check_run(body, actor=LOCAL)["problems"]
    assert (problem["path"], problem["code"]) == ("baseModel", "required")
    _set_base_reference()
    run = submit_run(body, actor=LOCAL).run
    assert run.base_model == TINY


def _set_base_reference():
    from registry.operations.models import register_base_model
    from registry.operations.workloads import move_reference

    version = register_base_model(BaseModel.objects.get(), actor=LOCAL)
    move_reference(Workload.objects.get(), "base", version, actor=LOCAL)


@pytest.mark.requirement("R019", "R199")
def test_only_an_allowed_and_selected_base_model_is_admitted(ready):
    assert problems_of(baseModel="acme/unknown") == {"baseModel": "base_model_not_allowed"}
    assert problems_of(baseModel="Qwen/Qwen3-0.6B") == {"baseModel": "base_model_not_selected"}
    with pytest.raises(RunRefused) as info:
        submit(baseModel="Qwen/Qwen3-0.6B")
    assert "base-models select Qwen/Qwen3-0.6B" in info.value.hint


def test_work_may_name_a_model_that_is_still_being_prepared(ready):
    BaseModel.objects.update(phase="PENDING", revision="", folder="")
    assert submit().base_revision == ""


def test_a_model_that_could_not_be_prepared_is_refused_with_why(ready):
    BaseModel.objects.update(phase="UNSUPPORTED", failure_reason="It carries code.")
    (problem,) = check()["problems"]
    assert problem["code"] == "base_model_unusable"
    assert "It carries code." in problem["message"]


def test_an_archived_workload_or_namespace_takes_no_new_run(ready):
    Workload.objects.update(archived_at=timezone.now())
    Namespace.objects.filter(pk="triage").update(archived_at=timezone.now())
    with pytest.raises(RunRefused) as info:
        submit()
    assert [problem.code for problem in info.value.problems] == ["workload_archived", "namespace_archived"]
    assert info.value.code == "run_refused"


def test_five_mistakes_are_refused_once_with_five_paths(ready):
    with pytest.raises(RunRefused) as info:
        submit(config={"method": "sftt", "format": "x", "maxSeqLength": 9999,
                       "hyperparams": {"lora": {"dropout": 1}, "optimizer": {"weightDecay": -0.1}}})
    assert {problem.path for problem in info.value.problems} == {
        "config.method", "config.format", "config.maxSeqLength", "lora.dropout", "optimizer.weightDecay"}
    assert Run.objects.count() == 0


def test_a_run_is_refused_before_any_device_is_claimed(ready):
    with pytest.raises(RunRefused):
        submit(execution={"gpus": 2})
    assert Lease.objects.count() == 0


# Submissions ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R115")
def test_the_same_descriptor_twice_is_two_runs(ready):
    assert submit().pk != submit().pk


@pytest.mark.requirement("R044", "R045")
def test_a_stated_submission_reaches_the_run_it_first_started(ready):
    first = submit_run(run_document(submissionId="s1"), actor=LOCAL)
    again = submit_run(run_document(submissionId="s1"), actor=LOCAL)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.run.pk == again.run.pk
    assert submit(submissionId="s2").pk != first.run.pk


@pytest.mark.requirement("R044")
def test_a_resend_reaches_its_run_though_the_box_would_now_refuse_it(ready):
    first = submit(submissionId="s1")
    BaseModel.objects.update(phase="DESELECTED")
    assert submit(submissionId="s1").pk == first.pk


@pytest.mark.requirement("R044")
def test_the_same_submission_with_another_body_is_a_conflict(ready):
    first = submit(submissionId="s1")
    with pytest.raises(SubmissionConflict) as info:
        submit(submissionId="s1", description="another")
    assert (info.value.status, info.value.code, info.value.data["runId"]) == (409, "submission_conflict", first.pk)


@pytest.mark.django_db(transaction=True)
@pytest.mark.requirement("R044")
def test_a_submission_sent_many_times_at_once_is_one_run(ready):
    found, failures = [], []

    def send():
        try:
            found.append(submit_run(run_document(submissionId="s1"), actor=LOCAL))
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failures == []
    assert len({submission.run.pk for submission in found}) == Run.objects.count() == 1
    assert sum(submission.is_new for submission in found) == 1
    assert Event.objects.filter(type="run.submitted").count() == 1


@pytest.mark.requirement("R050")
def test_earlier_runs_of_a_recipe_are_listed_with_their_scores(ready, monkeypatch):
    earlier = submit(configName="first")
    submit(config={"maxSeqLength": 1024})
    model = make_dataset("triage/stand-in")
    Run.objects.filter(pk=earlier.pk).update(phase="COMPLETED", model=model)
    score = {"evaluationId": "e" * 64, "meanScore": 0.86}

    class Source:
        def best_scores_of_models(self, version_ids):
            return dict.fromkeys(version_ids, score)

    monkeypatch.setattr(scores, "_source", Source())
    (previous,) = check()["previousRuns"]
    assert (previous["runId"], previous["configName"], previous["score"]) == (earlier.pk, "first", score)
