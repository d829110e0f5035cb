"""`numeric`: a number in the answer is the number of the expected answer, within a tolerance.

Numbers are compared as decimals, so 0.1 is 0.1.
"""

import re
from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from .json_values import without_thoughts
from .rule import MAX_TEXT, Example, Judge, Parameter, Rule
from .verdict import Verdict, right, unscored, wrong

# The thousands are possessive: a long list of them is read once, not again from each of its places.
NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?(?:(?:\d{1,3}(?:,\d{3}(?!\d))++|\d++)(?:\.\d+)?|\.\d+)"
                    r"(?:[eE][-+]?\d{1,4}(?!\d))?", re.ASCII)
MAX_DIGITS = 60
EXACTLY = Context(prec=4 * MAX_DIGITS, Emax=10**9, Emin=-10**9)


def make(parameters: Mapping[str, Any]) -> Judge:
    """Compares within the larger of `absolute` and `relative` times the expected number."""
    absolute, relative = Decimal(str(parameters["absolute"])), Decimal(str(parameters["relative"]))

    def judge(answer: str, expected: str) -> Verdict:
        wanted = find_number(expected[:MAX_TEXT], parameters["which"])
        if wanted is None:
            return unscored("expected_without_number", "The expected answer holds no number.")
        given = find_number(without_thoughts(answer), parameters["which"])
        if given is None:
            return wrong("The answer holds no number.")
        off = abs(EXACTLY.subtract(given, wanted))
        if off <= max(absolute, EXACTLY.multiply(relative, abs(wanted))):
            return right(f"{given} for {wanted}.")
        return wrong(f"{given} is off by {off:.6g}; expected {wanted}.")

    return judge


def find_number(text: str, which: str) -> Decimal | None:
    """The first or last number of a text: a sign, thousands set off by commas, a fraction, an exponent.

    Digits inside a word, such as those of v2, are no number.
    """
    found = [number for number in map(_read, NUMBER.finditer(text)) if number is not None]
    return found[0 if which == "first" else -1] if found else None


def _read(match: re.Match[str]) -> Decimal | None:
    text = match.group().replace(",", "").replace("\u2212", "-")
    if sum(letter.isdigit() for letter in text) > MAX_DIGITS:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


RULE = Rule(
    "numeric", "1 where the answer's number is the expected one, within a tolerance, else 0.",
    (Parameter("absolute", "number", "How far off the number may be.", 0),
     Parameter("relative", "number", "How far off it may be, as a share of the expected number.", 0),
     Parameter("which", "choice", "Which number of a text counts.", "last", choices=("last", "first"))),
    make, Example({"absolute": 0.01}, "#### 3.14", "The answer is about 3.1416."))
