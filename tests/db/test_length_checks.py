"""A run's rows against its maxSeqLength, before a device is claimed: refused at submission, in the dry run and in the
queue; waited for, and let go on where the check cannot complete."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from datasets.analyses import operations as analyses
from datasets.analyses import queries
from datasets.models import Analysis, ExampleSet
from optimize_site.kernel.auth import LOCAL
from registry.models import BaseModel, Version
from runs import lengths, render
from runs.errors import RunRefused
from runs.lengths_text import check_words, lengths_rows
from runs.management.commands.runs import Command
from runs.models import Run
from runs.operations import advance_run, check_run, submit_run
from tests import factories as make

pytestmark = pytest.mark.django_db
WORDS = json.loads((Path(__file__).resolve().parents[1] / "length_refusals.json").read_text())


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def box(db):
    make.make_device("cpu")
    make.make_device("host", kind="host", profile="host")
    make.make_workload()
    make.make_base_model()
    return make.make_dataset("triage/train", 4)


def document(limit=512, truncation="error", **changes):
    config = {"maxSeqLength": limit, "data": {"truncation": truncation} | changes.pop("data", {}),
              **changes.pop("config", {})}
    return make.run_document(config=config, **changes)


def dry(*args, **changes):
    return check_run(document(*args, **changes), actor=LOCAL)


def submit(*args, **changes):
    run = submit_run(document(*args, **changes), actor=LOCAL).run
    advance_run(run.pk)
    return Run.objects.get(pk=run.pk)


def masked():
    """Rows that say themselves which tokens are trained."""
    rows = [json.loads(line) | {"mask": [1]} for line in make.chat_rows(4).splitlines()]
    return make.make_dataset("triage/masked", "\n".join(map(json.dumps, rows)).encode())


def under(truncation):
    """The parts of a run that cuts its rows so; `right` only may where its rows bring their own mask."""
    own = {"dataset": "triage/masked", "loss": {"explicitLossMaskColumn": "mask"}} if truncation == "right" else {}
    return {"truncation": truncation, "config": own}


def finish(lengths_, **report):
    """The job of the one analysis that waits."""
    analysis = Analysis.objects.get(phase="PENDING")
    make.write_lengths(analysis, lengths_)
    make.run_job({"type": "finished", "report": make.analysis_report(lengths_, **report)}, device="host")


def shown(found):
    return " ".join(str(value) for _, value in lengths_rows(found["resolved"]["lengths"]))


# Refused for their length --------------------------------------------------------------------------------------------


@pytest.mark.requirement("R104", "R106")
def test_long_rows_are_refused_at_submission_and_in_the_dry_run_in_the_same_words(box):
    analysis = make.analyze(box, [100, 600, 900, 512])
    told = dry()["problems"][0]
    with pytest.raises(RunRefused) as refused:
        submit()
    assert (told["path"], told["code"]) == ("config.dataset", "row_too_long")
    assert told["message"] == refused.value.detail == (
        "2 rows longer than maxSeqLength 512: line 3 (900 tokens), line 2 (600 tokens). Measured by the analysis "
        f"{analysis.pk[:12]} under acme/tiny at rev-1.")
    assert told["hint"] == refused.value.hint


@pytest.mark.requirement("R106")
def test_up_to_twenty_rows_are_named_the_longest_first(box):
    many = make.make_dataset("triage/many", 30)
    make.analyze(many, range(1001, 1031))
    message = dry(config={"dataset": "triage/many"})["problems"][0]["message"]
    assert message.startswith("30 rows longer than maxSeqLength 512: line 30 (1030 tokens), line 29 (1029 tokens)")
    assert message.count(" tokens)") == 20
    assert "line 11 (1011 tokens) and 10 more. Measured by" in message


@pytest.mark.requirement("R105")
def test_both_datasets_of_a_run_are_checked(box):
    make.analyze(box, [100] * 4)
    make.analyze(make.make_dataset("triage/held", 3), [100, 800, 100])
    problems = dry(data={"validationDataset": "triage/held"})["problems"]
    assert [problem["path"] for problem in problems] == ["config.data.validationDataset"]
    assert "line 2 (800 tokens)" in problems[0]["message"]


@pytest.mark.requirement("R109")
def test_under_oldest_rows_count_at_the_shortest_they_can_be_trimmed_to(box):
    make.analyze(box, [100, (900, 300), (800, 700), (900, 650)])
    problem = dry(truncation="oldest")["problems"][0]
    assert problem["message"].startswith(
        "2 rows longer than maxSeqLength 512 even with all turns but the last removed: line 3 (700 tokens), line 4 "
        "(650 tokens). Measured by the analysis ")
    for way_out in ("Raise config.maxSeqLength", "shorten the rows", "oldest_or_drop"):
        assert way_out in problem["hint"]
    assert dry(700, "oldest")["valid"]


@pytest.mark.requirement("R110")
def test_oldest_or_drop_and_drop_refuse_no_row_for_its_length_unless_nothing_is_left(box):
    make.analyze(box, [100, (900, 300), (800, 700), (900, 650)])
    assert dry(truncation="oldest_or_drop")["valid"]
    assert dry(truncation="drop")["valid"]
    emptied = dry(50, "drop")["problems"][0]
    assert emptied["code"] == "nothing_to_train"
    assert emptied["message"].startswith("No row of the training dataset is left: 4 rows longer than maxSeqLength 50, "
                                         "which data.truncation drop leaves out. Measured")


@pytest.mark.requirement("R111")
def test_a_mask_column_does_not_keep_fitting_rows_from_being_admitted(box):
    """Which long rows carry a mask the analysis cannot tell; the job refuses those when it reads them."""
    make.analyze(box, [100, (900, 300), 100, 100])
    ExampleSet.objects.update(statistics={"columns": {"mask": 1}})
    masked = {"config": {"loss": {"explicitLossMaskColumn": "mask"}}}
    found = dry(truncation="oldest", **masked)
    assert found["valid"]
    assert found["resolved"]["lengths"]["training"]["trimmed"] == 1


@pytest.mark.parametrize("case", WORDS["long"], ids=lambda case: f"{case['truncation']}-{case['count']}")
@pytest.mark.requirement("R104")
def test_the_sentence_about_long_rows_is_the_job_s_own(case):
    rows = [(row["line"], row["tokens"]) for row in case["rows"]]
    assert lengths.long_words(case["truncation"], case["limit"], rows, case["count"]) == case["reason"]
    assert lengths.long_hint(case["truncation"]) == case["hint"]


# Refused for what the template makes of them -------------------------------------------------------------------------

PROBLEMS = [{"line": 3, "row": 2, "kind": "text_dropped", "where": "answer",
             "reason": "the chat template leaves out the text of messages[1], the answer"},
            {"line": 4, "row": 3, "kind": "call_dropped", "where": "earlier",
             "reason": "the chat template leaves out a call of messages[1]"}]


@pytest.mark.parametrize("truncation", ["error", "right", "drop", "oldest", "oldest_or_drop"])
@pytest.mark.requirement("R337", "R338")
def test_rows_that_the_template_does_not_render_whole_are_refused_under_every_truncation(box, truncation):
    make.analyze(masked() if truncation == "right" else box, [100] * 4, templateProblems=PROBLEMS,
                 templateProblemRows=2)
    problem = dry(**under(truncation))["problems"][0]
    assert problem["code"] == "bad_row"
    assert problem["message"].startswith(
        "2 rows cannot be trained on. line 3: the chat template leaves out the text of messages[1], the answer; "
        "line 4: the chat template leaves out a call of messages[1]. Measured by the analysis ")


@pytest.mark.parametrize("case", WORDS["bad"], ids=lambda case: str(case["count"]))
def test_the_sentence_about_rows_that_cannot_be_trained_on_is_the_job_s_own(case):
    rows = [(row["line"], row["reason"]) for row in case["rows"]]
    assert lengths.bad_words(rows, case["count"]) == case["reason"]


# Waiting in the queue ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R105", "R108")
def test_a_submission_starts_the_analysis_and_the_run_waits_for_it_before_it_claims_a_device(box):
    run = submit()
    assert run.phase == "AWAITING_CAPACITY"
    assert "being measured" in render.run_document(run)["progress"]["waitReason"]
    assert make.claim_job("cpu") is None
    finish([100] * 4)
    advance_run(run.pk)
    assert make.claim_job("cpu").holder_id == run.pk
    check = render.run_document(Run.objects.get(pk=run.pk))["lengthCheck"]
    assert (check["status"], check["training"]["analysisId"]) == ("checked", Analysis.objects.get().pk)
    assert check["training"]["baseModelRevision"] == "rev-1"
    assert check_words(check) == f"training against the analysis {Analysis.objects.get().pk[:12]} (acme/tiny at rev-1)"


@pytest.mark.requirement("R105", "R266")
@pytest.mark.parametrize(("method", "format", "unit"), [("sft", "chat-jsonl-v1", "row"),
                                                        ("dpo", "preference-jsonl-v1", "pair")])
def test_a_run_with_a_long_row_fails_in_the_queue_and_never_had_a_device(box, method, format, unit):
    for model in (ExampleSet, Version):
        model.objects.update(format=format)
    run = submit(config={"method": method})
    finish([100, 600, 100, 100])
    advance_run(run.pk)
    run.refresh_from_db()
    assert (run.phase, run.failure_code, run.num_attempts) == ("FAILED", "row_too_long", 0)
    assert run.failure_reason.startswith(f"1 {unit} longer than maxSeqLength 512: line 2 (600 tokens)")


@pytest.mark.requirement("R107")
def test_an_analysis_that_fails_lets_the_run_go_on_marked_as_not_run(box):
    run = submit()
    make.run_job({"type": "failure", "code": "unexpected", "reason": "It broke.", "hint": ""}, outcome="failed",
                 device="host")
    advance_run(run.pk)
    check = render.run_document(Run.objects.get(pk=run.pk))["lengthCheck"]
    assert check["status"] == "not_run"
    assert "It broke." in check["note"]
    assert check_words(check).startswith("not run: The analysis")
    assert make.claim_job("cpu").holder_id == run.pk


@pytest.mark.requirement("R112")
@pytest.mark.parametrize("truncation", ["error", "right", "drop", "oldest", "oldest_or_drop"])
def test_it_waits_half_an_hour_at_most_and_goes_on_with_the_check_not_run(box, truncation):
    masked()
    run = submit(**under(truncation))
    assert make.claim_job("cpu") is None
    late = run.length_check | {"since": (timezone.now() - timedelta(minutes=31)).isoformat()}
    Run.objects.filter(pk=run.pk).update(length_check=late)
    advance_run(run.pk)
    run.refresh_from_db()
    assert run.length_check["status"] == "not_run"
    assert "30 minutes" in run.length_check["note"]
    assert make.claim_job("cpu").holder_id == run.pk


@pytest.mark.requirement("R112")
def test_on_several_devices_only_a_finished_analysis_is_used_where_no_length_is_refused():
    for truncation in ("drop", "right", "oldest_or_drop"):
        config = {"data": {"truncation": truncation}}
        assert not lengths.need_of("sft", config, {"gpus": 2}).waits
        assert lengths.need_of("sft", config, {"gpus": 1}).waits
        assert lengths.need_of("dpo", config, {"gpus": 2}).waits
    assert lengths.need_of("sft", {"data": {"truncation": "error"}}, {"gpus": 2}).waits
    assert lengths.need_of("grpo", {}, {"gpus": 1}) is None


@pytest.mark.requirement("R112")
def test_a_run_that_does_not_wait_starts_no_analysis_and_goes_on_at_once(box):
    make.make_device("cpu-2")
    run = submit(truncation="drop")
    Analysis.objects.all().delete()
    again = dict(run.execution) | {"gpus": 2}
    Run.objects.filter(pk=run.pk).update(execution=again)
    advance_run(run.pk)
    run.refresh_from_db()
    assert (run.length_check["status"], Analysis.objects.count()) == ("not_run", 0)
    assert "only where one is done" in run.length_check["note"]


def test_a_resumed_run_is_not_measured_again(box):
    make.analyze(box, [100] * 4)
    run = submit()
    Run.objects.filter(pk=run.pk).update(phase="AWAITING_BASE_MODEL")
    before = run.length_check
    advance_run(run.pk)
    run.refresh_from_db()
    assert (run.phase, run.length_check) == ("AWAITING_CAPACITY", before)


# The Lengths section -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R120")
def test_a_dry_run_shows_the_lengths_of_both_datasets_and_where_they_come_from(box):
    analysis = make.analyze(box, [100, 200, 300, 400])
    make.analyze(make.make_dataset("triage/held", 3), [50, 60, 800])
    found = dry(1000, data={"validationDataset": "triage/held"})
    training, validation = (found["resolved"]["lengths"][part] for part in ("training", "validation"))
    assert {key: training[key] for key in ("rows", "median", "p90", "p99", "longest", "over",
                                           "suggestedMaxSeqLength")} == {
        "rows": 4, "median": 300, "p90": 400, "p99": 400, "longest": 400, "over": 0, "suggestedMaxSeqLength": 512}
    assert training["tokenizer"] == {"repository": "acme/tiny", "revision": "rev-1"}
    assert (training["analysisId"], training["productVersion"]) == (analysis.pk, "0.1.0")
    assert training["chatTemplateSha256"] == "5" * 64
    assert (validation["rows"], validation["longest"]) == (3, 800)
    for words in (f"analysis {analysis.pk[:12]}", "shipped chat template", "Optimize 0.1.0", "4 rows: median 300"):
        assert words in shown(found)


@pytest.mark.requirement("R108", "R120")
def test_the_commands_show_the_section_and_what_a_run_was_checked_against(box, tmp_path, capsys):
    analysis = make.analyze(box, [100, 200, 300, 400])
    file = tmp_path / "run.json"
    file.write_text(json.dumps(document(300, "drop")))
    assert Command().run(["start", "-f", str(file), "--dry-run"]) == 0
    section = capsys.readouterr().out.split("\nLengths\n")[1].split("\n\n")[0]
    for words in ("4 rows: median 300, p90 400, p99 400, longest 400 tokens", "1 row longer than 300",
                  "suggested maxSeqLength 512", f"analysis {analysis.pk[:12]}: tokenizer acme/tiny at rev-1"):
        assert words in section
    assert Command().run(["get", submit().pk]) == 0
    assert f"training against the analysis {analysis.pk[:12]} (acme/tiny at rev-1)" in capsys.readouterr().out


@pytest.mark.requirement("R121")
def test_a_smoke_check_counts_the_training_rows_of_its_slice_and_every_validation_row(box):
    make.analyze(box, [600, 100, 700, 800])
    make.analyze(make.make_dataset("triage/held", 3), [50, 600, 800])
    found = dry(data={"validationDataset": "triage/held"}, smoke={"sliceSize": 2})
    training, validation = (found["resolved"]["lengths"][part] for part in ("training", "validation"))
    assert (training["rows"], training["over"]) == (2, 1)
    assert (validation["rows"], validation["over"]) == (3, 2)
    messages = [problem["message"] for problem in found["problems"] if problem["code"] == "row_too_long"]
    assert messages[0].startswith("1 row longer than maxSeqLength 512: line 1 (600 tokens). Measured")


@pytest.mark.requirement("R121")
def test_a_smoke_check_is_refused_only_for_the_rows_of_its_slice_that_the_template_does_not_render(box):
    make.analyze(box, [100] * 4, templateProblems=PROBLEMS, templateProblemRows=2)

    def refused(slice_size):
        problems = dry(smoke={"sliceSize": slice_size})["problems"]
        return [problem["message"].partition(" cannot")[0] for problem in problems if problem["code"] == "bad_row"]

    assert [refused(size) for size in (2, 3, 4)] == [[], ["1 row"], ["2 rows"]]


@pytest.mark.requirement("R124")
def test_under_oldest_or_drop_it_says_how_many_rows_are_trimmed_and_how_many_cannot_fit(box):
    make.analyze(box, [100, (900, 300), (800, 700), (900, 650)])
    found = dry(truncation="oldest_or_drop")
    training = found["resolved"]["lengths"]["training"]
    assert (training["over"], training["trimmed"], training["cannotFit"]) == (3, 1, 2)
    assert "3 rows longer than 512: 1 trimmed, 2 that cannot fit even trimmed" in shown(found)


@pytest.mark.requirement("R122")
def test_without_an_analysis_it_shows_the_command_and_starts_nothing(box):
    found = dry()
    training = found["resolved"]["lengths"]["training"]
    assert (training["status"], training["command"]) == (
        "no_analysis", "./optimize datasets analyze triage/train:v1 --model acme/tiny")
    assert training["command"] in shown(found)
    assert Analysis.objects.count() == 0


@pytest.mark.requirement("R122")
def test_one_that_is_pending_or_runs_is_named(box):
    analysis = start(box)
    assert f"The analysis {analysis.pk[:12]} is pending." in shown(dry())
    attempt = make.claim_job("host")
    make.tell_job(attempt, {"type": "started", "pid": 1, "versions": {}},
                  {"type": "stage", "name": "measuring", "done": 1, "total": 4, "unit": "rows"})
    found = dry()["resolved"]["lengths"]["training"]
    assert (found["status"], "command" in found) == ("running", False)
    assert "is running, 1 of 4." in found["note"]


@pytest.mark.requirement("R122")
def test_one_that_failed_gives_its_reason_and_the_command_only_where_another_attempt_could_succeed(box):
    start(box)
    fail("unexpected", "It broke.")
    found = dry()["resolved"]["lengths"]["training"]
    assert ("It broke." in found["note"], "command" in found) == (True, True)
    start(box)
    fail("bad_row", "1 row cannot be read. line 1: it is no JSON.")
    found = dry()["resolved"]["lengths"]["training"]
    assert ("it is no JSON" in found["note"], "command" in found) == (True, False)


@pytest.mark.requirement("R122")
def test_one_that_cannot_be_read_and_a_base_model_without_a_commit_are_explained_without_a_command(box):
    analysis = make.analyze(box, [100] * 4)
    (queries.folder_of(analysis) / "lengths.bin").unlink()
    found = dry()["resolved"]["lengths"]["training"]
    assert (found["status"], "command" in found) == ("unreadable", False)
    BaseModel.objects.update(phase="PENDING", revision="")
    found = dry()["resolved"]["lengths"]["training"]
    assert (found["status"], "command" in found) == ("no_commit", False)
    assert "resolves to no commit" in found["note"]


@pytest.mark.requirement("R123")
def test_prepared_rows_show_the_longest_one_that_their_version_records(box):
    ExampleSet.objects.update(format="prepared-tokens-v1", details={"longestRow": 700})
    found = dry()
    training = found["resolved"]["lengths"]["training"]
    assert (training["status"], training["longest"]) == ("recorded", 700)
    assert "longest 700 tokens" in shown(found)


@pytest.mark.requirement("R125", "R266", "R350")
def test_a_preference_dataset_is_counted_in_pairs(box):
    ExampleSet.objects.update(format="preference-jsonl-v1")
    make.analyze(box, [100, 900, 100, 100])
    found = dry(config={"method": "dpo"})
    training = found["resolved"]["lengths"]["training"]
    assert (training["unit"], training["over"]) == ("pairs", 1)
    assert "1 pair longer than 512" in shown(found)
    assert any(problem["message"].startswith("1 pair longer than maxSeqLength 512: line 2 (900 tokens)")
               for problem in found["problems"])


@pytest.mark.requirement("R267")
@pytest.mark.parametrize("truncation", ["error", "drop"])
def test_a_pair_that_the_template_does_not_render_after_its_prompt_is_refused_by_name(box, truncation):
    ExampleSet.objects.update(format="preference-jsonl-v1")
    problem = {"line": 3, "row": 2, "kind": "refused", "where": "prompt", "reason": "No system turn."}
    make.analyze(box, [100, 100, 100], templateProblems=[problem], templateProblemRows=1)
    found = dry(config={"method": "dpo", "data": {"truncation": truncation}})
    assert any("line 3" in problem["message"] and "No system turn." in problem["message"]
               for problem in found["problems"])


def start(dataset):
    from registry.base_model_queries import get_base_model

    examples = ExampleSet.objects.get(pk=dataset.content_hash)
    return analyses.start_analysis(examples, get_base_model(make.TINY), actor=LOCAL).analysis


def fail(code, reason):
    make.run_job({"type": "failure", "code": code, "reason": reason, "hint": ""}, outcome="failed", device="host")
