"""Pipelines: checked whole, carried out stage by stage, gated, cancelled and taken up again without repeating."""

import json

import pytest

from datasets.models import ExampleSet
from endpoints.errors import NoRoomForJudges
from evaluations.errors import NothingToResume, PipelineRefused, SubmissionConflict
from evaluations.management.commands.pipelines import Command
from evaluations.models import Evaluation, Pipeline, Stage
from evaluations.operations.pipelines import (
    advance_pipelines,
    cancel_pipeline,
    check_pipeline,
    resume_pipeline,
    start_pipeline,
)
from evaluations.pipeline_queries import get_pipeline
from evaluations.pipeline_render import checked_document, pipeline_document
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import PhaseConflict
from registry.errors import WorkInProgress
from registry.models import BaseModel
from registry.operations.namespaces import archive_namespace
from registry.operations.workloads import archive_workload, set_evaluation
from registry.workload_queries import get_workload
from runs.models import Run
from runs.operations import advance_run
from tests.factories import (
    TINY,
    chat_rows,
    make_adapter,
    make_base_model,
    make_dataset,
    make_device,
    make_workload,
    measured,
    put_weights,
    run_document,
)
from tests.playing import STARTED, claim, end, failure, metrics, reread, save, say

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


def train(name="train", **changes):
    body = {key: value for key, value in run_document(**changes).items() if key in {"baseModel", "config", "execution"}}
    return {"name": name, "type": "train", **body}


def evaluate(name="judge", model="@train", **changes):
    return {"name": name, "type": "evaluate", "model": model, "dataset": "support/eval", **changes}


@pytest.fixture
def ready(db):
    """A box that can run the stages below: a device, a workload with data, measured."""
    make_device()
    put_weights(make_base_model())
    make_workload()
    make_dataset("triage/train")
    make_dataset("support/eval", chat_rows(4, salt="held out"))
    measured("triage/train")
    return "triage"


def pipeline(ready, *stages, **changes):
    return {"kind": "pipeline", "workload": ready, "stages": list(stages) or [train(), evaluate()], **changes}


def started(ready, *stages, **changes):
    row = start_pipeline(pipeline(ready, *stages, **changes), actor=LOCAL).pipeline
    advance_pipelines()
    return row


def states(row):
    return [stage.state for stage in row.stages.order_by("position")]


def finish_run(row, *, fails=False):
    """Play the run of the stage in progress to its end."""
    run = row.stages.get(state="RUNNING").run
    advance_run(run.pk)
    attempt = claim(run)
    if fails:
        say(run, attempt, STARTED, failure("bad_row", "Row 3 is bad."))
        end(run, attempt, "failed")
    else:
        say(run, attempt, STARTED, metrics(1), save(attempt, 1, final=True))
        end(run, attempt, "finished")
    advance_run(run.pk)
    advance_pipelines()
    return reread(run)


def finish_evaluation(row, score):
    """Have the evaluation in progress end with a score, as its job would."""
    from django.utils import timezone

    found = row.stages.get(state="RUNNING").evaluation
    Evaluation.objects.filter(pk=found.pk).update(phase="COMPLETED", mean_score=score, ended_at=timezone.now())
    advance_pipelines()


@pytest.mark.requirement("R034", "R035")
def test_stages_run_in_order_and_a_later_one_takes_what_an_earlier_one_made(ready):
    row = started(ready)
    assert states(row) == ["RUNNING", "PENDING"]
    run = finish_run(row)
    assert states(row) == ["COMPLETED", "RUNNING"]
    judged = row.stages.get(name="judge").evaluation
    assert judged.model_id == run.model_id
    finish_evaluation(row, 0.8)
    row.refresh_from_db()
    assert (row.phase, states(row)) == ("COMPLETED", ["COMPLETED", "COMPLETED"])
    assert (run.pipeline_id, run.stage_name) == (row.pk, "train")


@pytest.mark.requirement("R034")
@pytest.mark.parametrize(("score", "phase", "last"), [(0.79, "FAILED", "SKIPPED"), (0.8, "RUNNING", "RUNNING")])
def test_a_stage_below_its_gate_keeps_the_later_ones_from_running(ready, score, phase, last):
    row = started(ready, train(), evaluate(minMeanScore=0.8), train("again"))
    finish_run(row)
    finish_evaluation(row, score)
    row.refresh_from_db()
    assert (row.phase, states(row)[2]) == (phase, last)
    if phase == "FAILED":
        assert row.failure_code == "gate_not_met"
        assert "scored 0.7900, below its gate 0.8" in row.failure_reason


def test_a_failed_stage_ends_the_pipeline_with_its_reason_and_resuming_repeats_no_finished_one(ready):
    row = started(ready, train("first"), train("second"), evaluate(model="@second"))
    first = finish_run(row)
    failed = finish_run(row, fails=True)
    row.refresh_from_db()
    assert (row.phase, states(row)) == ("FAILED", ["COMPLETED", "FAILED", "SKIPPED"])
    assert "Row 3 is bad." in row.failure_reason
    resume_pipeline(row, actor=LOCAL)
    advance_pipelines()
    assert states(row) == ["COMPLETED", "RUNNING", "PENDING"]
    again = row.stages.get(name="second")
    assert (again.number, again.run_id == failed.pk) == (2, False)
    assert row.stages.get(name="first").run_id == first.pk


def test_the_cost_of_a_stage_is_that_of_all_its_tries(ready):
    row = started(ready, train("first"), evaluate(model="@first"))
    failed = finish_run(row, fails=True)
    Run.objects.filter(pk=failed.pk).update(device_seconds=500.0)
    resume_pipeline(Pipeline.objects.get(), actor=LOCAL)
    advance_pipelines()
    Run.objects.filter(pk=finish_run(row).pk).update(device_seconds=40.0)
    Evaluation.objects.update(device_seconds=7.0)
    document = pipeline_document(get_pipeline(row.pk))
    assert [stage["deviceSeconds"] for stage in document["stages"]] == [540.0, 7.0]
    assert document["cost"]["deviceSeconds"] == 547.0


def test_a_program_that_waits_reads_a_whole_document_an_update(ready, capsys, monkeypatch):
    row = started(ready)

    def end(_):
        cancel_pipeline(Pipeline.objects.get(), actor=LOCAL)
        advance_pipelines()

    monkeypatch.setattr("optimize_site.kernel.commands.time.sleep", end)
    assert Command().run(["wait", row.pk, "-o", "json-compact"]) == 0
    phases = [json.loads(line)["phase"] for line in capsys.readouterr().out.splitlines()]
    assert (phases[0], phases[-1]) == ("RUNNING", "CANCELLED")


def test_a_pipelines_note_is_kept_at_any_time_and_one_that_is_too_long_is_refused(ready, capsys):
    row = started(ready)

    def note(text):
        status = Command().run(["annotate", row.pk, "--description", text])
        return status, Pipeline.objects.get().description, capsys.readouterr().err

    assert note("Nightly.")[:2] == (0, "Nightly.")
    status, kept, told = note("x" * 10_001)
    assert (status, kept) == (2, "Nightly.") and "description has 10001 characters; it may have at most 10000" in told
    assert note("")[1] == ""


def test_looking_twice_starts_nothing_twice(ready):
    row = started(ready)
    Stage.objects.filter(pipeline=row).update(state="PENDING", run=None)
    advance_pipelines()
    advance_pipelines()
    assert Run.objects.count() == 1
    assert row.stages.get(name="train").run_id == Run.objects.get().pk


def test_cancelling_cancels_the_stage_in_progress_and_runs_no_later_one(ready):
    row = started(ready)
    cancelled = cancel_pipeline(row, actor=LOCAL)
    assert (cancelled.phase, states(row)) == ("CANCELLED", ["CANCELLED", "SKIPPED"])
    assert Run.objects.get().phase == "CANCELLED"
    with pytest.raises(PhaseConflict):
        cancel_pipeline(row, actor=LOCAL)
    resume_pipeline(row, actor=LOCAL)
    advance_pipelines()
    assert states(row) == ["RUNNING", "PENDING"]


def test_a_completed_pipeline_is_not_taken_up_again_and_a_running_one_goes_on_as_it_is(ready):
    row = started(ready, train())
    assert resume_pipeline(row, actor=LOCAL).phase == "RUNNING"
    finish_run(row)
    with pytest.raises(NothingToResume):
        resume_pipeline(row, actor=LOCAL)


def test_the_same_submission_reaches_the_same_pipeline(ready):
    first = start_pipeline(pipeline(ready, submissionId="s"), actor=LOCAL)
    again = start_pipeline(pipeline(ready, submissionId="s"), actor=LOCAL)
    assert (again.is_new, again.pipeline.pk) == (False, first.pipeline.pk)
    with pytest.raises(SubmissionConflict):
        start_pipeline(pipeline(ready, train(), submissionId="s"), actor=LOCAL)


@pytest.mark.parametrize(("stages", "path", "told"), [
    ([train(), evaluate(model="@other")], "stages[1].model", "no earlier stage"),
    ([evaluate(model="@train"), train()], "stages[0].model", "no earlier stage"),
    ([train(), train()], "stages[1].name", "Two stages"),
    ([train(), evaluate(dataset="@train")], "stages[1].dataset", "gives no dataset"),
    ([train(), evaluate(), evaluate("more", model="@judge")], "stages[2].model", "gives no model"),
    ([{"name": "c", "type": "curate"}], "stages[0].type", "cannot run in this version"),
    ([{"name": "c", "type": "dance"}], "stages[0].type", "train or evaluate"),
    ([train() | {"colour": "red"}], "stages[0].colour", "no field colour"),
    ([train() | {"name": "A b"}], "stages[0].name", "lowercase"),
    ([train(), evaluate(minMeanScore=2)], "stages[1].minMeanScore", "between 0 and 1"),
    ([], "stages", "at least one"),
    ([train(f"s{number}") for number in range(51)], "stages", "There are 51 stages; a pipeline has at most 50"),
    (["train"], "stages[0]", "an object with a name and a type"),
    ([train(), evaluate(model="")], "stages[1].model", "model is missing"),
    ([train() | {"config": "x"}], "stages[0].config", "must be an object"),
    ([train(), evaluate(grader=5)], "stages[1].grader", "grader is the number 5; it must be a text"),
    ([train(), evaluate(maxCompletionTokens="many")], "stages[1].maxCompletionTokens", "must be a whole number"),
    ([train(), evaluate(maxCompletionTokens=100_000)], "stages[1].evaluation", "at most 100000 tokens was asked for"),
])
def test_what_is_wrong_with_a_stage_is_told_by_its_path(ready, stages, path, told):
    checked = check_pipeline({"kind": "pipeline", "workload": ready, "stages": stages}, actor=LOCAL)
    assert any(problem.path == path and told in problem.message for problem in checked.problems)


def test_a_stage_is_judged_by_the_grader_that_it_names(ready):
    row = started(ready, train(), evaluate(grader='numeric: {"absolute": 1.0}'))
    finish_run(row)
    assert row.stages.get(name="judge").evaluation.grader == 'numeric:{"absolute":1}'


def test_a_pipeline_trains_the_judge_that_grades_a_later_stage(ready):
    row = started(ready, train(), evaluate(grader="model:@train", graderInstructions="Be strict."))
    finish_run(row)
    stage = row.stages.get(name="judge")
    assert (stage.evaluation.judge, stage.evaluation.grader_instructions) == (
        row.stages.get(name="train").model, "Be strict.")


@pytest.mark.parametrize(("own", "told"), [({}, ("Be kind.", "workload")), (
    {"graderInstructions": "Be strict."}, ("Be strict.", "stated"))])
def test_a_stage_that_states_none_has_the_workloads_judge_told_what_the_workload_states(ready, own, told):
    """The run of an earlier stage may state its own, which its evaluation takes."""
    set_evaluation(get_workload(ready), dataset="support/eval", grader=f"model:{TINY}", instructions="Be kind.",
                   actor=LOCAL)
    row = started(ready, train() | own, evaluate())
    finish_run(row)
    judged = row.stages.get(name="judge").evaluation
    assert (judged.grader_instructions, judged.instructions_source) == told


def test_a_stage_with_a_grader_that_cannot_be_used_is_refused_before_anything_starts(ready):
    with pytest.raises(PipelineRefused) as refused:
        started(ready, train(), evaluate(grader='numeric:{"absolute":-1}'))
    assert [problem.code for problem in refused.value.problems] == ["malformed_grader"]


def test_a_train_stage_is_checked_as_a_run_is_and_everything_is_told_at_once(ready):
    bad = train()
    bad["config"] = bad["config"] | {"maxSeqLength": -1}
    with pytest.raises(PipelineRefused) as refused:
        start_pipeline(pipeline(ready, bad, evaluate(dataset="support/none"), colour="red"), actor=LOCAL)
    paths = {problem.path for problem in refused.value.problems}
    assert {"colour", "stages[0].config.maxSeqLength"} <= paths
    assert any(path.startswith("stages[1].") for path in paths)
    assert not Pipeline.objects.exists()


@pytest.mark.parametrize(("own", "asked", "workloads", "code"), [
    ({}, {"graderInstructions": "Be strict."}, "exact", "grader_instructions_do_not_apply"),
    ({"grader": "exact"}, {"graderInstructions": "Be strict."}, "base", "grader_instructions_do_not_apply"),
    ({"grader": "exact", "graderInstructions": "Be strict."}, {}, "base", ""),
    ({}, {"graderInstructions": "Be strict."}, "base", ""),
    ({}, {}, "trained", "grader_instructions_required"),
    ({}, {"graderInstructions": "Be strict."}, "trained", ""),
    ({"graderInstructions": "Be strict."}, {}, "trained", ""),
    ({}, {"model": TINY}, "trained", "grader_instructions_required"),
    ({}, {"model": TINY, "graderInstructions": "Be strict."}, "exact", "grader_instructions_do_not_apply"),
    ({}, {"grader": "model:@train"}, "trained", ""),
    ({}, {"grader": "model:@train", "graderInstructions": "Be strict."}, "exact", ""),
    ({}, {"grader": "model:@train", "graderInstructions": "x" * 9000}, "exact", "grader_instructions_too_long"),
])
def test_what_a_stages_judge_would_be_told_is_refused_before_anything_trains(ready, own, asked, workloads, code):
    base, workload = BaseModel.objects.get(), get_workload(ready)
    judge = make_adapter(workload, base).reference if workloads == "trained" else TINY
    set_evaluation(workload, dataset="support/eval", actor=LOCAL,
                   grader="exact" if workloads == "exact" else f"model:{judge}")
    checked = check_pipeline(pipeline(ready, train() | own, evaluate(**asked)), actor=LOCAL)
    found = [(problem.path, problem.code) for problem in checked.problems if problem.path.startswith("stages[1]")]
    assert found == ([("stages[1].evaluation", code)] if code else [])


@pytest.mark.parametrize("grader", [f"model:{TINY}", "model:@train", ""])
def test_a_stage_whose_judge_no_device_has_room_for_is_refused_before_anything_trains(ready, grader, monkeypatch):
    set_evaluation(get_workload(ready), dataset="support/eval", grader=f"model:{TINY}", actor=LOCAL)

    def refuse(*_, **__):
        raise NoRoomForJudges("No slot.")

    monkeypatch.setattr("endpoints.operations.judges.room_for", refuse)
    stage = evaluate(grader=grader, graderInstructions="Be strict.") if grader else evaluate()
    checked = check_pipeline(pipeline(ready, train(), stage), actor=LOCAL)
    assert [problem.code for problem in checked.problems] == ["no_room_for_judge"]


@pytest.mark.requirement("R119")
def test_a_dry_run_shows_what_each_train_stage_would_train_with_every_default(ready):
    document = checked_document(check_pipeline(pipeline(ready), actor=LOCAL), resolved=True)
    assert document["valid"]
    assert document["stages"][0]["resolved"]["config"]["hyperparams"]["lora"]["rank"] == 8
    assert "resolved" not in document["stages"][1]
    assert "resolved" not in checked_document(check_pipeline(pipeline(ready), actor=LOCAL), resolved=False)["stages"][0]


@pytest.mark.requirement("R119")
def test_the_command_prints_the_settings_of_each_stage_that_trains_and_of_no_other(ready, capsys, tmp_path):
    (tmp_path / "p.json").write_text(json.dumps(pipeline(ready, train(), evaluate(), train("again"))))
    words = ["start", "-f", str(tmp_path / "p.json"), "--dry-run"]
    assert Command().run([*words, "--show-resolved"]) == 0
    out = capsys.readouterr().out
    settings = {line.split()[0]: line.split()[1] for line in out.splitlines() if len(line.split()) > 1}
    assert settings["config.hyperparams.lora.rank"] == "8" and settings["execution.keepAdapters"] == "5"
    assert out.count("config.hyperparams.training.epochs") == 2
    assert Command().run(words) == 0
    assert "config.hyperparams" not in capsys.readouterr().out
    assert not Pipeline.objects.exists()


@pytest.mark.parametrize(("document", "codes"), [
    ([], {"not_an_object"}), ({}, {"wrong_kind", "required"}),
    ({"kind": "run", "workload": "triage", "stages": [{"name": "a", "type": "train"}]}, {"wrong_kind"}),
    ({"kind": "pipeline", "workload": "nobody", "stages": [{"name": "a", "type": "train"}]},
     {"unknown_workload"}),
    ({"kind": "pipeline", "workload": 7}, {"wrong_kind"}),
    ({"kind": "pipeline", "workload": "triage", "submissionId": 20261201}, {"wrong_kind"}),
    ({"kind": "pipeline", "workload": "triage", "submissionId": "x" * 129}, {"wrong_length"}),
    ({"kind": "pipeline", "workload": "triage", "description": "x" * 10_001}, {"wrong_length"})])
def test_what_is_no_pipeline_of_a_workload_is_refused_by_dry_run_and_start(ready, document, codes):
    problems = check_pipeline(document, actor=LOCAL).problems
    assert {problem.code for problem in problems if not problem.path.startswith("stages")} == codes
    with pytest.raises(PipelineRefused):
        start_pipeline(document, actor=LOCAL)


@pytest.mark.requirement("R239")
def test_what_a_stage_reads_is_checked_again_when_it_starts(ready):
    row = started(ready, train(), evaluate(model="@train"))
    from registry.models import Artifact

    Artifact.objects.filter(namespace="support", name="eval").update(name="gone")
    finish_run(row)
    row.refresh_from_db()
    assert row.phase == "FAILED"
    assert "support/eval" in row.failure_reason


@pytest.mark.requirement("R239")
def test_rows_with_tools_that_a_later_stage_cannot_render_fail_it_when_it_starts(ready):
    row = started(ready, train(), train("again") | {"warmStartModelId": "@train"})
    ExampleSet.objects.update(num_tool_rows=2, num_images=1)
    finish_run(row)
    row.refresh_from_db()
    assert (row.phase, states(row), row.stages.get(name="again").run) == ("FAILED", ["COMPLETED", "FAILED"], None)
    assert "2 rows that offer tools" in row.failure_reason


def test_commands_and_routes_tell_the_same_of_a_pipeline(ready, capsys, tmp_path):
    file = tmp_path / "p.json"
    file.write_text(json.dumps(pipeline(ready, train(), evaluate(minMeanScore=0.9))))

    def ask(*argv):
        status = Command().run([str(part) for part in argv])
        return status, capsys.readouterr().out

    assert "gate 0.9" in ask("start", "-f", file, "--dry-run")[1]
    found = json.loads(ask("start", "-f", file, "-o", "json")[1])
    advance_pipelines()
    finish_run(Pipeline.objects.get())
    finish_evaluation(Pipeline.objects.get(), 0.5)
    document = pipeline_document(get_pipeline(found["pipelineId"]))
    assert [stage["state"] for stage in document["stages"]] == ["COMPLETED", "FAILED"]
    status, out = ask("wait", found["pipelineId"][:12], "--exit-status")
    assert status == 8
    assert "below its gate" in out
    assert "FAILED" in ask("list")[1]


@pytest.mark.requirement("R302")
def test_a_train_stage_that_would_register_into_an_archived_namespace_is_refused(ready):
    archive_namespace(get_workload("triage").namespace, actor=LOCAL)
    (problem,) = check_pipeline(pipeline(ready), actor=LOCAL).problems
    assert (problem.path, problem.code) == ("stages[0].workload", "namespace_archived")
    with pytest.raises(PipelineRefused) as refused:
        start_pipeline(pipeline(ready), actor=LOCAL)
    assert "namespaces unarchive triage" in refused.value.problems[0].hint
    assert not Pipeline.objects.exists() and not Run.objects.exists()


@pytest.mark.requirement("R298")
def test_archiving_a_workload_names_its_pipelines_in_progress_and_not_those_that_ended(ready):
    row = start_pipeline(pipeline(ready), actor=LOCAL).pipeline
    with pytest.raises(WorkInProgress) as refused:
        archive_workload(get_workload("triage"), actor=LOCAL)
    assert f"pipeline {row.pk[:12]} (RUNNING)" in refused.value.detail
    assert [problem.hint for problem in refused.value.problems] == [
        f"`./optimize pipelines cancel {row.pk[:12]}` ends it."]
    cancel_pipeline(row, actor=LOCAL)
    advance_pipelines()
    archive_workload(get_workload("triage"), actor=LOCAL)
    assert get_workload("triage").archived_at is not None
