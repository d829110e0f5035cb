"""`regex`: a pattern is found in the answer, or matches all of it."""

from collections.abc import Mapping
from typing import Any

from .exact import IGNORE_CASE
from .json_values import without_thoughts
from .patterns import MAX_PATTERN, SECONDS, Patience, TooSlow, compile_pattern
from .rule import Example, Judge, Parameter, Rule
from .verdict import Verdict, right, unscored, wrong


def make(parameters: Mapping[str, Any]) -> Judge:
    """Matches the answer, without the white space around it."""
    pattern = compile_pattern(parameters["pattern"], ignore_case=parameters["ignoreCase"])
    whole = parameters["match"] == "full"

    def judge(answer: str, expected: str) -> Verdict:
        try:
            found = Patience().search(pattern, without_thoughts(answer).strip(), whole=whole)
        except TooSlow:
            return unscored("pattern_too_slow", f"The pattern took more than {SECONDS:g} s of processor time.")
        if found is None:
            return wrong("The pattern does not match the whole answer." if whole else
                         "The pattern is nowhere in the answer.")
        return right(f"Matched {_shown(found.group())}.")

    return judge


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")


RULE = Rule(
    "regex", "1 where the pattern is found in the answer, or matches all of it, else 0.",
    (Parameter("pattern", "text", "A regular expression, as Python writes them.", is_required=True,
               longest=MAX_PATTERN),
     Parameter("match", "choice", "Found anywhere, or over the full answer.", "search", choices=("search", "full")),
     IGNORE_CASE),
    make, Example({"pattern": r"ticket-\d{4}", "match": "full"}, "", "ticket-0042"))
