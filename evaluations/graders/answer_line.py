"""`answer-line`: the answer ends with a line that marks what it comes to, such as `#### 18`. Only the form counts."""

import re
from collections.abc import Mapping
from typing import Any

from .json_values import without_thoughts
from .numeric import NUMBER
from .rule import BadGrader, Example, Judge, Parameter, Rule
from .verdict import Verdict, right, wrong

HALF = 0.5
SIGNS = r"[^\w\s#]{0,3}"
"""What may stand at a number: a currency's sign before it, a percent sign or a full stop behind it."""
NUMBER_ALONE = re.compile(rf"{SIGNS}[ \t]?(?:{NUMBER.pattern})[ \t]?{SIGNS}", NUMBER.flags)


def make(parameters: Mapping[str, Any]) -> Judge:
    """Looks for a line that begins with `mark` and holds a number, or any text, behind it. Raises BadGrader."""
    mark = parameters["mark"].strip()
    if not mark:
        raise BadGrader("The mark of the grader answer-line is white space.", path="mark",
                        hint="Write what the line begins with, such as ####.")
    is_number = parameters["value"] == "number"

    def judge(answer: str, expected: str) -> Verdict:
        lines = [line.strip() for line in without_thoughts(answer).splitlines() if line.strip()]
        marked = [place for place, line in enumerate(lines) if line.startswith(mark)
                  and _fits(line.removeprefix(mark).strip(), is_number=is_number)]
        if not marked:
            return wrong(f"No line says {mark} and then a {parameters['value']}.")
        if len(marked) > 1:
            return _partly(f"{len(marked)} lines say {mark} and then a {parameters['value']}; one is wanted.")
        if marked[0] < len(lines) - 1:
            return _partly(f"The answer goes on behind {lines[marked[0]][:60]!r}.")
        return right(f"It ends with {lines[-1][:60]!r}.")

    return judge


def _fits(value: str, *, is_number: bool) -> bool:
    return NUMBER_ALONE.fullmatch(value) is not None if is_number else bool(value)


def _partly(explanation: str) -> Verdict:
    return Verdict(HALF, False, explanation=explanation)


RULE = Rule(
    "answer-line", "1 where the answer ends with a line that marks what it comes to, such as #### 18; 0.5 where that "
    "line is not the last or not the only one; else 0. Whether it is right does not count.",
    (Parameter("mark", "text", "What the line begins with.", "####", longest=40),
     Parameter("value", "choice", "What stands behind the mark.", "number", choices=("number", "text"))),
    make, Example({}, "", "9 eggs are sold, at 2 dollars each.\n#### 18"))
