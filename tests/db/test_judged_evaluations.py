"""Evaluations that a model grades: who judges, what it is told, and that it stands while it is asked and no longer."""

import json

import pytest
from django.test import Client

from endpoints.models import Judge
from endpoints.operations.judges import advance_judges, socket_of
from evaluations.models import Evaluation
from evaluations.operations.evaluations import (
    Request,
    advance_judged,
    cancel_evaluation,
    retry_evaluation,
    start_evaluation,
)
from evaluations.scores import scores_table
from evaluations.work import EvaluationWork
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.models import Device
from optimize_site.kernel.scores import best_scores_of_models
from optimize_site.kernel.work import attempt_folder
from registry.operations.workloads import set_evaluation
from tests.factories import (
    claim_job,
    end_job,
    make_adapter,
    make_base_model,
    make_dataset,
    make_device,
    make_workload,
    put_weights,
    run_job,
    tell_job,
)

pytestmark = pytest.mark.django_db
STARTED, JUDGING = {"type": "started", "pid": 1, "versions": {}}, {"type": "stage", "name": "judging", "done": 0}
ROWS = b"".join(json.dumps({"messages": [
    {"role": "system", "content": "You route tickets."}, {"role": "user", "content": f"ticket {number}"},
    {"role": "assistant", "content": "billing"}]}).encode() + b"\n" for number in range(2))


def said(position):
    return {"type": "answer", "position": position, "system": "base", "expected": "billing", "answer": "cards",
            "prompt": [{"role": "user", "content": f"ticket {position}"}], "prompt_tokens": 10, "completion_tokens": 5,
            "chat_template_sha256": "", "base_model_revision": "rev-1", "finish": "stop"}


def scored(position, score, cause=""):
    return {"type": "scored", "position": position, "score": score, "is_exact": None if score is None else score == 1,
            "fields": {}, "explanation": "So.", "cause": cause}


@pytest.fixture
def base():
    make_device()
    make_device("host", kind="host", profile="host", slots=2)
    make_dataset("triage/eval", ROWS)
    return put_weights(make_base_model())


@pytest.fixture
def workload(base):
    return make_workload(dataset="eval")


def start(base, **stated):
    return start_evaluation(Request(**{"model": base.repository, "workload": "triage",
                                       "grader": f"model:{base.repository}"} | stated), actor=LOCAL).evaluation


def answered(base, **stated):
    """An evaluation whose answers are all there, so that it waits for its judge."""
    row = start(base, **stated)
    run_job(said(0), said(1), {"type": "finished", "answers": 2})
    advance_judges()
    row.refresh_from_db()
    return row


def judging():
    """The judge's job, ready to be asked."""
    attempt = claim_job()
    assert attempt.holder_kind == "judge"
    tell_job(attempt, STARTED, JUDGING)
    return attempt


def test_the_judge_is_told_what_was_stated_else_what_it_inherits_and_it_is_shown(base, workload):
    row = start(base)
    assert row.instructions_source == "dataset"
    assert "You route tickets." in row.grader_instructions
    assert row.grader == f"model:{base.version.reference}"
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    sent = client.post("/v1/training/evaluations", json.dumps(
        {"model": base.repository, "workload": "triage", "grader": f"model:{base.version.pk[:12]}",
         "graderInstructions": "Be strict."}), "application/json")
    shown = client.get(f"/v1/training/evaluations/{sent.json()['evaluationId']}").json()
    assert (shown["graderInstructions"], shown["instructionsSource"]) == ("Be strict.", "stated")
    assert shown["judgeModelId"] == base.version.pk


def test_what_a_workload_states_is_told_its_own_judge_wherever_nothing_else_is_stated(base, workload):
    grader, other = f"model:{base.version.reference}", make_adapter(workload, base)
    before = start(base, grader=grader, submission_id="before")
    set_evaluation(workload, dataset="eval", grader=f"model:{base.repository}", instructions=" Be kind. ", actor=LOCAL)
    assert (workload.grader, workload.grader_instructions) == (grader, "Be kind.")

    def told(**stated):
        row = start(base, **stated)
        return row.grader_instructions, row.instructions_source

    assert told(grader="") == told(grader=grader) == ("Be kind.", "workload")
    assert told(grader="", grader_instructions="Be strict.") == ("Be strict.", "stated")
    with pytest.raises(OperationError, match="no instructions to inherit"):
        start(base, grader=f"model:{other.reference}")
    Evaluation.objects.update(phase="COMPLETED", mean_score=0.5, model=base.version)
    table = scores_table(workload)
    assert table["graderInstructions"] == "Be kind."
    assert table["tables"][0]["baseline"]["evaluationId"] != before.pk
    (strict,) = scores_table(workload, instructions="Be strict.")["tables"]
    assert strict["baseline"]["graderInstructions"] == "Be strict."
    (best,) = best_scores_of_models([base.version.pk]).values()
    assert best["graderInstructions"] == "Be kind."


@pytest.mark.parametrize(("stated", "code"), [
    ({"grader": "exact", "grader_instructions": "Be strict."}, "grader_instructions_do_not_apply"),
    ({"grader": "model:nobody/none"}, "unknown_reference"), ({"grader": "model:"}, "malformed_grader"),
    ({"grader_instructions": "x" * 9000}, "grader_instructions_too_long"),
])
def test_what_cannot_judge_is_refused_before_anything_is_spent(base, workload, stated, code):
    with pytest.raises(OperationError) as refused:
        start(base, **stated)
    assert refused.value.code == code
    assert not Evaluation.objects.exists()


def test_the_judge_stands_only_from_the_last_answer_to_the_last_score(base, workload):
    row = answered(base)
    assert (row.phase, row.num_answered, row.num_scored) == ("AWAITING_GRADER", 2, 0)
    advance_judged()
    row.refresh_from_db()
    assert "waits for a free slot" in row.wait_reason
    assert claim_job("host") is None
    judge = judging()
    attempt = claim_job("host")
    row.refresh_from_db()
    assert (attempt.holder_id, row.phase) == (row.pk, "SCORING")
    tell_job(attempt, STARTED, scored(0, 0.75), scored(1, None, "no_verdict"), {"type": "finished", "answers": 2})
    end_job(attempt)
    row.refresh_from_db()
    assert (row.phase, row.mean_score, row.report["unscored"]["causes"]) == ("COMPLETED", 0.75, {"no_verdict": 1})
    end_job(judge, "stopped")
    assert Judge.objects.get().phase == "RELEASED"


def test_the_scorer_is_told_the_judges_socket_and_instructions_and_no_expected_answer_is_asked(base, workload):
    row = answered(base, grader_instructions="Be strict.")
    judging()
    attempt = claim_job("host")
    attempt_folder(attempt.pk).mkdir(parents=True)
    row.refresh_from_db()
    (term,) = EvaluationWork().plan(row, attempt)["scorer"]["spec"]["terms"]
    assert term["judge"] == {"socket": str(socket_of(Judge.objects.get())), "instructions": "Be strict.",
                             "source": "stated", "seconds": 300.0}


def test_an_evaluation_whose_judge_fails_says_why_and_its_retry_asks_another(base, workload):
    row = answered(base)
    attempt = claim_job()
    tell_job(attempt, {"type": "failure", "code": "base_model_missing", "reason": "It is gone.", "hint": "Select it."})
    end_job(attempt, "failed")
    advance_judged()
    row.refresh_from_db()
    assert (row.phase, row.failure_code, row.failure_reason) == (
        "FAILED", "base_model_missing", "The judge failed: It is gone.")
    assert retry_evaluation(row, actor=LOCAL).phase == "AWAITING_GRADER"
    advance_judges()
    judging()
    assert claim_job("host").holder_id == row.pk


def test_a_cancelled_evaluation_lets_its_judge_go(base, workload):
    row = answered(base)
    cancel_evaluation(row, actor=LOCAL)
    advance_judges()
    assert Judge.objects.get().phase == "RELEASED"


def test_a_box_without_a_slot_for_a_judge_refuses(base, workload):
    Device.objects.filter(uuid="cpu").update(is_present=False)
    with pytest.raises(OperationError) as refused:
        start(base)
    assert refused.value.code == "no_room_for_judge"


def test_scores_under_different_instructions_do_not_stand_beside_each_other(base, workload):
    set_evaluation(workload, dataset="eval", grader=f"model:{base.repository}", actor=LOCAL)
    model = make_adapter(workload, base)
    for told, score in (("", 0.5), ("Be kind.", 0.9)):
        row = start(base, model=model.reference, grader_instructions=told)
        Evaluation.objects.filter(pk=row.pk).update(phase="COMPLETED", mean_score=score, ended_at=row.created_at)
    assert best_scores_of_models([model.pk])[model.pk]["meanScore"] == 0.5
    workload.refresh_from_db()
    for told, score in (("", 0.5), ("Be kind.", 0.9)):
        (table,) = scores_table(workload, instructions=told)["tables"]
        assert [entry["best"] for entry in table["configurations"]] == [score]


def test_scores_are_asked_for_by_instructions_as_they_were_stated_anywhere_else(base, workload):
    """The same words reach them with a form's line ends, and what no grader could be told is refused."""
    grader = f"model:{base.repository}"
    row = start(base, grader_instructions="Be strict.\nBe brief.")
    Evaluation.objects.filter(pk=row.pk).update(phase="COMPLETED", mean_score=0.5, model=base.version)
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})

    def asked(told, by=grader):
        return client.get(f"/v1/training/workloads/{workload.name}/scores",
                          {"dataset": "eval", "grader": by, "graderInstructions": told})

    for told in ("Be strict.\nBe brief.", " Be strict.\r\nBe brief.\r\n"):
        found = asked(told).json()
        assert found["graderInstructions"] == "Be strict.\nBe brief."
        assert found["tables"][0]["baseline"]["evaluationId"] == row.pk
    for told, by, code in (("Be strict.", "exact", "grader_instructions_do_not_apply"),
                           ("x" * 8001, grader, "grader_instructions_too_long")):
        refused = asked(told, by)
        assert refused.json()["code"] == code


def test_a_trained_judge_without_instructions_to_inherit_keeps_a_workloads_scores_empty(base, workload):
    judge = make_adapter(workload, base)
    set_evaluation(workload, dataset="eval", grader=f"model:{judge.reference}", actor=LOCAL)
    with pytest.raises(OperationError) as refused:
        start(base, grader="")
    assert refused.value.code == "grader_instructions_required"
    workload.refresh_from_db()
    assert scores_table(workload)["tables"] == []
