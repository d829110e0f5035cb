"""Marking answers by hand: what a person says of them, to see how far a grader agrees."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from evaluations.errors import MalformedMark
from evaluations.models import Evaluation, Mark
from optimize_site.kernel import events
from optimize_site.kernel.auth import Actor

WORDS = {"right": 1.0, "wrong": 0.0, "clear": None}
MOST = 1000


@dataclass(frozen=True)
class Wish:
    """A mark for the answer to one row: a score between 0 and 1, or None to take one's mark back."""

    position: int
    score: float | None


def read_mark(text: str) -> float | None:
    """What `right`, `wrong`, `clear` or a number stands for. Raises MalformedMark."""
    word = text.strip().lower()
    if word in WORDS:
        return WORDS[word]
    try:
        score = float(word)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 1:
        raise MalformedMark(f"A mark is right, wrong, a number from 0 to 1, or clear; this is {text[:40]!r}.",
                            hint="`clear` takes a mark back.")
    return score


@transaction.atomic
def mark_answers(row: Evaluation, wishes: Sequence[Wish], *, actor: Actor) -> None:
    """Keep what the actor says of these answers; another mark of theirs on one replaces the first.

    All of them, or none: raises MalformedMark where a row has no answer or is named twice.
    """
    actor.require("operator")
    if not 1 <= len(wishes) <= MOST or len({wish.position for wish in wishes}) < len(wishes):
        raise MalformedMark(f"{len(wishes)} marks were sent; they must be 1 to {MOST}, each of another row.")
    answers = {answer.position: answer for answer in
               row.predictions.filter(position__in=[wish.position for wish in wishes]).defer("prompt")}
    for wish in wishes:
        if wish.position not in answers:
            raise MalformedMark(f"The evaluation {row.pk[:12]} has no answer to the row {wish.position}.",
                                hint="`evaluations predictions` shows the rows that are answered.")
        _keep(row, answers[wish.position].pk, wish, actor)
    events.record("evaluation", row.pk, "evaluation.marked", actor=actor, data={
        "marks": sum(wish.score is not None for wish in wishes),
        "cleared": sum(wish.score is None for wish in wishes)})


def _keep(row: Evaluation, prediction_id: int, wish: Wish, actor: Actor) -> None:
    if wish.score is None:
        Mark.objects.filter(prediction_id=prediction_id, by=actor.name).delete()
        return
    Mark.objects.update_or_create(prediction_id=prediction_id, by=actor.name, defaults={
        "score": wish.score, "content_hash": row.content_hash, "position": wish.position})
