"""A bundle's function and a service as graders, wherever models are judged: a pipeline's stage and its gate, a
promotion, a comparison. What they give no score to is left out everywhere, and is never a zero."""

import pytest

from evaluations.comparison_render import comparison_document
from evaluations.models import Evaluation
from evaluations.operations.comparisons import Wish, advance_comparisons, create_comparison
from evaluations.operations.evaluations import Request, start_evaluation
from evaluations.operations.pipelines import advance_pipelines, check_pipeline, start_pipeline
from evaluations.operations.promotion import promote
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import OperationError
from registry.models import BaseModel
from registry.operations.bundles import register_bundle
from registry.operations.workloads import set_evaluation
from runs.models import Snapshot
from runs.operations import branch_run, tend_snapshots
from runs.operations.branching import Wish as Branch
from tests.bundles import packed
from tests.factories import (
    chat_rows,
    claim_job,
    end_job,
    make_adapter,
    make_base_model,
    make_dataset,
    make_device,
    make_run,
    make_workload,
    measured,
    put_weights,
    run_document,
    run_job,
    tell_job,
)
from tests.playing import STARTED, complete

pytestmark = pytest.mark.django_db
TEMPLATE, ROWS = "t" * 64, 4
SERVICE, FUNCTION = "http:https://grader.example/score", "bundle:triage/scoring:v1#reward"
WRITTEN = pytest.mark.parametrize(("stated", "grader"), [("http:https://Grader.example:443/score", SERVICE),
                                                         ("bundle:scoring#reward", FUNCTION)], ids=["http", "bundle"])


@pytest.fixture
def box(tmp_path, monkeypatch):
    """A box with a model to train, data to judge it by, a bundle, and a service that may be asked; its workload."""
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    monkeypatch.setenv("OPTIMIZE_TRAINER_GRADERS_HTTP_HOSTS", "grader.example")
    make_device()
    make_device("host", kind="host", profile="host")
    put_weights(make_base_model(facts={"contextLength": 4096, "chatTemplateSha256": TEMPLATE}))
    workload = make_workload()
    make_dataset("triage/train")
    make_dataset("triage/eval", chat_rows(ROWS, salt="held out"))
    measured("triage/train")
    register_bundle("triage/scoring", [packed(reward="def compute_score():\n    return 1\n")], actor=LOCAL)
    return workload


def answer_all(row):
    """The job on a device: an answer to every row, and no score of any."""
    run_job(*({"type": "answer", "position": number, "system": "candidate", "prompt": [], "expected": "x",
               "answer": f"answer {number}", "prompt_tokens": 5, "completion_tokens": 5, "finish": "stop",
               "chat_template_sha256": TEMPLATE, "base_model_revision": "rev-1"} for number in range(ROWS)))
    row.refresh_from_db()
    assert (row.phase, row.mean_score) == ("AWAITING_GRADER", None)


def score_all(row, *scores):
    """The job beside the devices: the grader's scores, None where it timed out."""
    attempt = claim_job("host")
    assert attempt.holder_id == row.pk
    tell_job(attempt, STARTED, *({"type": "scored", "position": number, "score": score, "is_exact": score == 1.0,
                                  "fields": {}, "cause": "" if score is not None else "timeout", "explanation": "said"}
                                 for number, score in enumerate(scores)))
    end_job(attempt)
    row.refresh_from_db()


def judged(row, *scores):
    answer_all(row)
    score_all(row, *scores)
    return row


# A pipeline ----------------------------------------------------------------------------------------------------------


def stages(grader, **gate):
    train = {"name": "train", "type": "train"} | {name: value for name, value in run_document().items()
                                                  if name in {"baseModel", "config"}}
    first = {"name": "first", "type": "evaluate", "model": "@train", "dataset": "triage/eval", "grader": grader, **gate}
    return {"kind": "pipeline", "workload": "triage", "stages": [train, first, {
        "name": "second", "type": "evaluate", "model": "@train", "dataset": "triage/eval", "grader": "exact"}]}


def at_its_gate(stated):
    """A pipeline whose model is trained, and the evaluation that a gate stands behind."""
    row = start_pipeline(stages(stated, minMeanScore=0.7), actor=LOCAL).pipeline
    advance_pipelines()
    complete(row.stages.get(name="train").run)
    advance_pipelines()
    return row, row.stages.get(name="first").evaluation


@WRITTEN
@pytest.mark.parametrize(("scores", "state", "after"), [
    ((1.0, 0.5, 0.75, None), "COMPLETED", "RUNNING"), ((1.0, 0.5, 0.5, None), "FAILED", "SKIPPED")])
def test_a_stage_of_a_pipeline_waits_for_its_grader_and_its_gate_takes_the_mean_of_what_was_scored(
        box, stated, grader, scores, state, after):
    row, evaluation = at_its_gate(stated)
    assert evaluation.grader == grader
    answer_all(evaluation)
    advance_pipelines()
    assert row.stages.get(name="first").state == "RUNNING"
    score_all(evaluation, *scores)
    advance_pipelines()
    assert [row.stages.get(name=name).state for name in ("first", "second")] == [state, after]
    assert (evaluation.num_scored, evaluation.num_unscored) == (3, 1)


def test_a_grader_that_cannot_be_asked_fails_its_stage_with_the_reason_and_nothing_passes_the_gate(box):
    row, evaluation = at_its_gate(SERVICE)
    answer_all(evaluation)
    run_job({"type": "failure", "code": "scorer_not_ready", "reason": "The host leads to 10.0.0.1.", "hint": "Allow.",
             "evidence": {}}, outcome="failed", device="host")
    advance_pipelines()
    row.refresh_from_db()
    assert (row.phase, row.stages.get(name="second").state) == ("FAILED", "SKIPPED")
    assert "The host leads to 10.0.0.1." in row.failure_reason


@pytest.mark.parametrize(("grader", "code"), [
    ("http:https://elsewhere.example/", "grader_host_not_allowed"), ("http:file:///etc/passwd", "malformed_grader"),
    ("bundle:nothing#reward", "unknown_reference"), ("bundle:scoring#nothing", "bundle_without_module")])
def test_a_stage_that_such_a_grader_cannot_judge_is_refused_before_anything_trains(box, grader, code):
    problems = check_pipeline(stages(grader), actor=LOCAL).problems
    assert [(problem.path.partition(".")[0], problem.code) for problem in problems] == [("stages[1]", code)]


# A promotion ---------------------------------------------------------------------------------------------------------


@WRITTEN
def test_a_model_is_promoted_on_the_scores_of_the_workloads_own_grader_alone(box, stated, grader):
    set_evaluation(box, dataset="triage/eval", grader=stated, actor=LOCAL)
    base = BaseModel.objects.get()
    first, second = (make_adapter(box, base, run_id=letter * 64, weights=letter.encode()) for letter in "ab")

    def evaluate(model, *scores, **request):
        row = start_evaluation(Request(model.reference, workload="triage", **request), actor=LOCAL).evaluation
        return judged(row, *scores) if scores else row

    evaluate(first, 0.5, 0.5, 0.5, None)
    reference = promote(box, first, actor=LOCAL)
    assert (reference.version, reference.evidence["evaluation"]["meanScore"]) == (first, 0.5)
    assert Evaluation.objects.get(pk=reference.evidence["evaluation"]["evaluationId"]).grader == grader
    evaluate(second, 0.5, 0.5, None, None)
    with pytest.raises(OperationError) as refused:
        promote(box, second, actor=LOCAL)
    assert refused.value.code == "not_better"
    evaluate(second, 1.0, 0.5, None, None)
    assert promote(box, second, actor=LOCAL).evidence["champion"]["meanScore"] == 0.5
    set_evaluation(box, dataset="triage/eval", grader="http:https://grader.example/another", actor=LOCAL)
    with pytest.raises(OperationError) as refused:
        promote(box, first, actor=LOCAL)
    assert refused.value.code == "no_evidence"


# A comparison --------------------------------------------------------------------------------------------------------


@WRITTEN
@pytest.mark.parametrize(("second", "phase", "wins"), [
    ((0.75, 0.5, None, None), "COMPLETED", True), ((None,) * ROWS, "PARTIAL", False)])
def test_models_are_compared_under_such_a_grader_by_the_mean_of_what_was_scored(
        box, stated, grader, second, phase, wins):
    parent = complete(make_run())
    source = Snapshot.objects.get(run=parent, step=2)
    child = complete(branch_run(Branch(source, 2), actor=LOCAL).run)
    wish = Wish(source.pk, dataset="triage/eval", branches=(child.pk,), grader=stated)
    row = create_comparison(wish, actor=LOCAL).comparison
    tend_snapshots()
    advance_comparisons()
    targets = [target.evaluation for target in row.targets.all()]
    assert {target.grader for target in targets} == {row.grader} == {grader}
    for target in targets:
        answer_all(target)
    score_all(targets[0], 0.5, 0.5, 0.5, 0.5)
    score_all(targets[1], *second)
    advance_comparisons()
    row.refresh_from_db()
    document = comparison_document(row)
    assert (document["phase"], document["winnerRunId"]) == (phase, child.pk if wins else None)
