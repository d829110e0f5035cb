"""Routes of marking answers by hand, and of how far graders agree with it."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Router

from evaluations import queries
from evaluations.agreement_queries import agreement_of
from evaluations.errors import MalformedMark
from evaluations.operations.marks import WORDS, Wish, mark_answers
from optimize_site.kernel.api import Body
from optimize_site.kernel.auth import actor_of

router = Router(tags=["evaluations"])


class NewMark(Body):
    """Of the answer to one row: a `verdict` (`right`, `wrong`, `clear`), or a `score` between 0 and 1."""

    position: int
    verdict: str = ""
    score: float | None = Field(None, ge=0, le=1)

    def wish(self) -> Wish:
        if bool(self.verdict) == (self.score is not None) or (self.verdict and self.verdict not in WORDS):
            raise MalformedMark(f"The mark of the row {self.position} needs one of verdict and score.",
                                hint="verdict is right, wrong or clear; score is a number from 0 to 1.")
        return Wish(self.position, WORDS[self.verdict] if self.verdict else self.score)


class NewMarks(Body):
    """Marks of several rows: kept together, or none of them."""

    marks: list[NewMark] = Field(min_length=1, max_length=1000)


@router.post("/{evaluation}/marks")
def mark(request: HttpRequest, evaluation: str, body: NewMarks) -> dict[str, Any]:
    """Say what you think of answers; another mark on the same answer replaces yours. Gives the agreement now."""
    row = queries.get_evaluation(evaluation)
    mark_answers(row, [mark.wish() for mark in body.marks], actor=actor_of(request))
    return agreement_of(row)


@router.get("/{evaluation}/agreement")
def get_agreement(request: HttpRequest, evaluation: str) -> dict[str, Any]:
    """How far the evaluation's grader agrees with what people marked, and other graders of the same rows beside it."""
    return agreement_of(queries.get_evaluation(evaluation))
