"""Storing answers with their verdicts as they come, and the report at the end."""

from typing import Any

from django.db.models import Avg, Count

from evaluations import phases
from evaluations.graders import Verdict, judge_of
from evaluations.judging import hold_judge
from evaluations.models import Evaluation, Prediction
from evaluations.queries import list_failures
from evaluations.report import Graded, build_report
from evaluations.rules import compares_texts
from evaluations.scorers import read_scored, scores_as_answered
from optimize_site.kernel import doorbell
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.line import end_of_line
from optimize_site.kernel.phases import move

COUNTS = ("num_answered", "num_scored", "num_unscored", "mean_score")


def record_answer(row: Evaluation, event: dict[str, Any]) -> None:
    """Keep one answer, with its verdict where the grader gives one at once, and carry the counts and the mean along; a
    second answer to a row is ignored."""
    verdict = judge(row.grader, event.get("answer"), event.get("expected") or "", event["finish"])
    _, is_new = Prediction.objects.get_or_create(evaluation=row, position=event["position"], defaults={
        "prompt": {"messages": event["prompt"], "tools": event.get("tools")}, "expected": event.get("expected") or "",
        "answer": event.get("answer") or "", "finish": event["finish"][:20], **_columns(verdict),
        "prompt_tokens": event["prompt_tokens"], "completion_tokens": event["completion_tokens"],
        "chat_template_sha256": event["chat_template_sha256"], "base_revision": event["base_model_revision"]})
    if is_new:
        row.num_answered += 1
        _count(row, verdict)


def record_score(row: Evaluation, event: dict[str, Any]) -> None:
    """Keep what a grader that is no rule says of an answer; a second verdict on a row is ignored."""
    found = row.predictions.unjudged().filter(position=event["position"]).only("id", "finish").first()
    if found is not None:
        verdict = _with_finish(read_scored(event), found.finish)
        Prediction.objects.filter(pk=found.pk).update(**_columns(verdict))
        _count(row, verdict)


def _columns(verdict: Verdict) -> dict[str, Any]:
    return {"score": verdict.score, "is_exact": verdict.is_exact, "fields": dict(verdict.fields),
            "explanation": verdict.explanation, "unscored_cause": verdict.cause[:40]}


def judge(grader: str, answer: str | None, expected: str, finish: str) -> Verdict:
    """The grader's verdict on one answer; empty where it is asked later. A row that could not be asked is unscored, and
    `finish` says why."""
    if answer is None:
        return Verdict(None, cause=finish, explanation=f"The row was not answered: {finish.replace('_', ' ')}.")
    if not scores_as_answered(grader):
        return Verdict(None)
    return _with_finish(judge_of(grader)(answer, expected), finish)


def _with_finish(verdict: Verdict, finish: str) -> Verdict:
    """The verdict, which says so where an answer that is not right was cut."""
    if finish != "length" or verdict.is_exact:
        return verdict
    said = " ".join(part for part in (verdict.explanation, "The answer was cut at the token ceiling.") if part)
    return Verdict(verdict.score, verdict.is_exact, verdict.fields, said, verdict.cause)


def _count(row: Evaluation, verdict: Verdict) -> None:
    """Count one more verdict; one that is still to come counts as nothing."""
    if verdict.score is not None:
        row.mean_score = ((row.mean_score or 0.0) * row.num_scored + verdict.score) / (row.num_scored + 1)
        row.num_scored += 1
    elif verdict.cause:
        row.num_unscored += 1
    Evaluation.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in COUNTS})


def recount(row: Evaluation) -> None:
    """Counts and mean from the stored answers themselves."""
    found = row.predictions.aggregate(answered=Count("id"), scored=Count("score"), mean=Avg("score"))
    row.num_answered, row.num_scored = found["answered"], found["scored"]
    row.num_unscored, row.mean_score = row.predictions.unscored().count(), found["mean"]
    Evaluation.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in COUNTS})


def ask_grader(row: Evaluation, **columns: Any) -> None:
    """All is answered and not all judged: wait for the grader, and for a place to ask it from, behind those that wait
    already unless `queued_at` is stated."""
    columns = {"queued_at": end_of_line()} | columns
    move(row, phases.AWAITING_GRADER, phases=phases.EVALUATION, actor=SYSTEM, wait_reason="", stage={}, **columns)
    _hold_judge(row)
    doorbell.ring_control()
    doorbell.ring_devices()


def _hold_judge(row: Evaluation) -> None:
    try:
        hold_judge(row)
    except OperationError as error:
        fail(row, error.code, error.detail, error.hint)


def fail(row: Evaluation, code: str, reason: str, hint: str) -> None:
    """End the evaluation over its grader; what was answered stays."""
    move(row, phases.FAILED, phases=phases.EVALUATION, actor=SYSTEM, reason=reason, failure_code=code,
         failure_reason=reason, failure_hint=hint)


def forget_failures(row: Evaluation) -> int:
    """Let the grader be asked again for the answers it gave no score; gives how many there are."""
    return list_failures(row).update(unscored_cause="", explanation="")


def finish(row: Evaluation, *, actor: Actor, **columns: Any) -> None:
    """Write the report and complete the evaluation."""
    graded = [Graded(one.expected, one.answer, one.score, one.is_exact, one.fields, one.unscored_cause,
                     one.prompt_tokens, one.completion_tokens)
              for one in row.predictions.order_by("position").iterator()]
    report = build_report(graded, compares_texts=compares_texts(row.grader))
    move(row, phases.COMPLETED, phases=phases.EVALUATION, actor=actor, report=report, mean_score=report["meanScore"],
         num_answered=report["rows"], num_scored=report["scored"], num_unscored=report["unscored"]["total"], stage={},
         data={"meanScore": report["meanScore"], "unscored": report["unscored"]["total"]}, **columns)
