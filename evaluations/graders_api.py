"""Routes of graders: which there are, whether one can be used, and what it says before anything is spent."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Router

from evaluations.agreement_queries import agreement_by_judge
from evaluations.graders import RULES
from evaluations.rules import rule_document
from evaluations.scoring.terms import Item
from evaluations.trying import tried, validated
from optimize_site.kernel.api import Body
from optimize_site.kernel.auth import actor_of

router = Router(tags=["graders"])


class NamedGrader(Body):
    """A grader as a workload, a run or an evaluation names it, with what a model that judges is told."""

    grader: str
    graderInstructions: str = ""


class TriedRow(Body):
    """An answer, what was expected, and the messages that were answered."""

    answer: str
    expected: str = ""
    prompt: list[dict[str, Any]] = []


class Trial(Body):
    """A grader and the rows it is tried on."""

    grader: str
    graderInstructions: str = ""
    rows: list[TriedRow] = Field(max_length=1000)


@router.get("")
def list_graders(request: HttpRequest) -> dict[str, Any]:
    """The rule graders with their parameters, and an example of each."""
    return {"graders": [rule_document(rule) for rule in RULES.values()]}


@router.get("/agreement")
def get_agreement(request: HttpRequest) -> dict[str, Any]:
    """Every grader that scored answers which people marked, and how far it agrees with them."""
    return {"graders": agreement_by_judge()}


@router.post("/validate")
def validate_grader(request: HttpRequest, body: NamedGrader) -> dict[str, Any]:
    """The grader's one text and every parameter it goes by; 422 where it cannot be used, and why."""
    return validated(body.grader, told=body.graderInstructions)


@router.post("/run")
def run_grader(request: HttpRequest, body: Trial) -> dict[str, Any]:
    """The verdict on each of up to 20 rows; nothing is kept. `score` is null where a row is unscored. Anybody may try a
    rule; what else scores is asked for operators."""
    items = [Item(number, row.prompt, row.answer, row.expected) for number, row in enumerate(body.rows)]
    return tried(body.grader, items, actor=actor_of(request), told=body.graderInstructions)
