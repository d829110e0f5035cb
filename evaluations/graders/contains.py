"""`contains`: the answer holds certain texts, or else the expected answer."""

from collections.abc import Mapping
from typing import Any

from .exact import IGNORE_CASE
from .json_values import without_thoughts
from .rule import MAX_TEXT, Example, Judge, Parameter, Rule, said
from .verdict import Verdict, right, without_expected, wrong


def make(parameters: Mapping[str, Any]) -> Judge:
    """Looks for `texts`, all or any; for the expected answer where there are none."""

    def judge(answer: str, expected: str) -> Verdict:
        wanted = parameters["texts"] or [expected[:MAX_TEXT].strip()]
        if not wanted[0]:
            return without_expected()
        text = _folded(without_thoughts(answer), parameters)
        missing = [one for one in wanted if _folded(one, parameters) not in text]
        return _any(wanted, missing) if parameters["match"] == "any" else _all(wanted, missing)

    return judge


def _folded(text: str, parameters: Mapping[str, Any]) -> str:
    return text.casefold() if parameters["ignoreCase"] else text


def _any(wanted: list[str], missing: list[str]) -> Verdict:
    if len(missing) == len(wanted):
        return wrong(f"The answer holds none of {said(wanted)}.")
    return right(f"The answer holds {said([one for one in wanted if one not in missing])}.")


def _all(wanted: list[str], missing: list[str]) -> Verdict:
    if not missing:
        return right()
    return Verdict((len(wanted) - len(missing)) / len(wanted), False,
                   explanation=f"Not in the answer: {said(missing)}.")


RULE = Rule(
    "contains", "The share of the texts that the answer holds, or 1 for any of them; without texts, the expected "
    "answer is what it must hold.",
    (Parameter("texts", "texts", "What the answer must hold; the expected answer unless given.", None),
     Parameter("match", "choice", "Whether all texts count, each for its share, or any one is enough.", "all",
               choices=("all", "any")), IGNORE_CASE),
    make, Example({"texts": ["refund", "5 days"]}, "", "We will send the refund within a week."))
