"""`exact`: the answer is the expected answer, character for character. White space around them does not count."""

from collections.abc import Mapping
from typing import Any

from .json_values import without_thoughts
from .rule import MAX_TEXT, Example, Judge, Parameter, Rule
from .verdict import Verdict, right, without_expected, wrong


def make(parameters: Mapping[str, Any]) -> Judge:
    """Compares what `ignoreCase` and `ignoreSpace` leave of the texts."""

    def judge(answer: str, expected: str) -> Verdict:
        wanted, given = plain(expected[:MAX_TEXT], parameters), plain(without_thoughts(answer), parameters)
        if not wanted:
            return without_expected()
        return right() if given == wanted else wrong(_first_difference(given, wanted))

    return judge


def plain(text: str, parameters: Mapping[str, Any]) -> str:
    """The text as it is compared."""
    text = " ".join(text.split()) if parameters["ignoreSpace"] else text.strip()
    return text.casefold() if parameters["ignoreCase"] else text


def _first_difference(given: str, wanted: str) -> str:
    if not given:
        return "The answer is empty."
    at = next((place for place, (one, other) in enumerate(zip(given, wanted, strict=False)) if one != other),
              min(len(given), len(wanted)))
    if at == len(wanted):
        return f"The answer goes on after character {at}, where the expected one ends."
    if at == len(given):
        return f"The answer ends after character {at}, where the expected one goes on."
    return f"The answer differs from character {at + 1} on: {given[at:at + 20]!r} and not {wanted[at:at + 20]!r}."


IGNORE_CASE = Parameter("ignoreCase", "flag", "Whether upper and lower case are the same.", False)
RULE = Rule(
    "exact", "1 where the answer is the expected answer, else 0.",
    (IGNORE_CASE, Parameter("ignoreSpace", "flag", "Whether any run of white space counts as one space.", False)),
    make, Example({"ignoreCase": True}, "billing", "Billing\n"), compares_texts=True)
