"""`weighted`: several graders together, each for its weight."""

from collections.abc import Callable, Mapping
from typing import Any

from .rule import BadGrader, Example, Judge, Parameter, Rule
from .verdict import Verdict

MAX_TERMS, MAX_NAME = 16, 60
KEYS = {"grader", "weight", "name"}
Term = tuple[str, float, Judge]


def weighted_rule(judge_of: Callable[[str], Judge], example: Example) -> Rule:
    """The grader over the graders that `judge_of` knows. A weighted grader is no term of another."""

    def make(parameters: Mapping[str, Any]) -> Judge:
        terms = _named([_read(number, entry, judge_of) for number, entry in enumerate(parameters["terms"])])
        return lambda answer, expected: _together(terms, answer, expected)

    return Rule(
        "weighted", "The mean of several graders' scores, each by its weight.",
        (Parameter("terms", "terms", 'The graders, a list of {"grader": …, "weight": 1, "name": …}; weight and name '
                   "may be left out.", is_required=True, most=MAX_TERMS),), make, example, parts="term")


def _read(number: int, entry: Mapping[str, Any], judge_of: Callable[[str], Judge]) -> Term:
    place = f"terms[{number}]"
    strangers = sorted(set(entry) - KEYS)
    if strangers:
        raise BadGrader(f"{place} of the grader weighted has no parameter {strangers[0]}.", path=place,
                        hint="A term has grader, weight and name.")
    text, weight = entry.get("grader"), entry.get("weight", 1)
    if not isinstance(text, str):
        raise BadGrader(f"{place} of the grader weighted names no grader.", path=place, hint="Give it a grader.")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1_000_000:
        raise BadGrader(f"The weight of {place} is {str(weight)[:40]}; it must be above 0 and at most 1000000.",
                        path=place, hint="Leave the term out to give it no weight.")
    name = entry.get("name", text.partition(":")[0].strip())
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise BadGrader(f"The name of {place} must be a text of 1 to {MAX_NAME} characters.", path=place)
    try:
        return name, float(weight), judge_of(text)
    except BadGrader as error:
        raise BadGrader(f"{place}: {error.detail}", path=place, hint=error.hint) from error


def _named(terms: list[Term]) -> list[Term]:
    """The terms with names of their own: what is there twice is numbered."""
    names = [name for name, _, _ in terms]
    return [(f"{name} {number + 1}" if names.count(name) > 1 else name, weight, judge)
            for number, (name, weight, judge) in enumerate(terms)]


def _together(terms: list[Term], answer: str, expected: str) -> Verdict:
    """The weighted mean. One term that cannot judge leaves the whole row unscored: its share is not known."""
    verdicts = [(name, weight, judge(answer, expected)) for name, weight, judge in terms]
    for name, _, verdict in verdicts:
        if verdict.score is None:
            return Verdict(None, cause=verdict.cause, explanation=f"{name}: {verdict.explanation}")
    scores = [(name, weight, verdict.score or 0.0) for name, weight, verdict in verdicts]
    score = sum(weight * value for _, weight, value in scores) / sum(weight for _, weight, _ in scores)
    explanation = " ".join(f"{name}: {verdict.score:g}{f' ({verdict.explanation})' if verdict.explanation else ''};"
                           for name, _, verdict in verdicts)
    return Verdict(min(score, 1.0), all(verdict.is_exact for _, _, verdict in verdicts),
                   {name: verdict.score == 1.0 for name, _, verdict in verdicts}, explanation.rstrip(";") + ".")
