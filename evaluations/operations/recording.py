"""Storing answers with their verdicts as they come, and the report at the end."""

from typing import Any

from django.db.models import Avg, Count

from evaluations import phases
from evaluations.graders import Verdict, judge_of
from evaluations.models import Evaluation, Prediction
from evaluations.report import Graded, build_report
from evaluations.rules import compares_texts
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.phases import move

COUNTS = ("num_answered", "num_scored", "num_unscored", "mean_score")


def record_answer(row: Evaluation, event: dict[str, Any]) -> None:
    """Keep one answer and its verdict, and carry the counts and the mean along; a second answer to a row is ignored."""
    verdict = judge(row.grader, event.get("answer"), event.get("expected") or "", event["finish"])
    _, is_new = Prediction.objects.get_or_create(evaluation=row, position=event["position"], defaults={
        "prompt": {"messages": event["prompt"], "tools": event.get("tools")}, "expected": event.get("expected") or "",
        "answer": event.get("answer") or "", "score": verdict.score, "is_exact": verdict.is_exact,
        "fields": dict(verdict.fields), "explanation": verdict.explanation, "unscored_cause": verdict.cause[:40],
        "prompt_tokens": event["prompt_tokens"], "completion_tokens": event["completion_tokens"],
        "chat_template_sha256": event["chat_template_sha256"], "base_revision": event["base_model_revision"]})
    if is_new:
        _count(row, verdict.score)


def judge(grader: str, answer: str | None, expected: str, finish: str) -> Verdict:
    """The grader's verdict on one answer; a row that could not be asked is unscored, and `finish` says why."""
    if answer is None:
        return Verdict(None, cause=finish, explanation=f"The row was not answered: {finish.replace('_', ' ')}.")
    verdict = judge_of(grader)(answer, expected)
    if finish != "length" or verdict.is_exact:
        return verdict
    said = " ".join(part for part in (verdict.explanation, "The answer was cut at the token ceiling.") if part)
    return Verdict(verdict.score, verdict.is_exact, verdict.fields, said, verdict.cause)


def _count(row: Evaluation, score: float | None) -> None:
    row.num_answered += 1
    if score is None:
        row.num_unscored += 1
    else:
        row.mean_score = ((row.mean_score or 0.0) * row.num_scored + score) / (row.num_scored + 1)
        row.num_scored += 1
    Evaluation.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in COUNTS})


def recount(row: Evaluation) -> None:
    """Counts and mean from the stored answers themselves."""
    found = row.predictions.aggregate(answered=Count("id"), scored=Count("score"), mean=Avg("score"))
    row.num_answered, row.num_scored = found["answered"], found["scored"]
    row.num_unscored, row.mean_score = found["answered"] - found["scored"], found["mean"]
    Evaluation.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in COUNTS})


def finish(row: Evaluation, *, actor: Actor, **columns: Any) -> None:
    """Write the report and complete the evaluation."""
    graded = [Graded(one.expected, one.answer, one.score, one.is_exact, one.fields, one.unscored_cause,
                     one.prompt_tokens, one.completion_tokens)
              for one in row.predictions.order_by("position").iterator()]
    report = build_report(graded, compares_texts=compares_texts(row.grader))
    move(row, phases.COMPLETED, phases=phases.EVALUATION, actor=actor, report=report, mean_score=report["meanScore"],
         num_answered=report["rows"], num_scored=report["scored"], num_unscored=report["unscored"]["total"], stage={},
         data={"meanScore": report["meanScore"], "unscored": report["unscored"]["total"]}, **columns)
