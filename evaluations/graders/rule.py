"""What a rule grader is, and how its parameters are declared and read.

A declaration drives everything: what is refused, what the form asks, what the reference says.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .verdict import Verdict

MAX_TEXT = 200_000
Judge = Callable[[str, str], Verdict]
"""Takes the answer and the expected answer."""


class BadGrader(ValueError):
    """A grader reference that cannot be used; `path` is the parameter at fault, `hint` says what to write."""

    def __init__(self, detail: str, *, path: str = "", hint: str = ""):
        super().__init__(detail)
        self.detail, self.path, self.hint = detail, path, hint


@dataclass(frozen=True)
class Parameter:
    """One parameter: `kind` is flag, choice, number, text, texts, object or terms."""

    name: str
    kind: str
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    is_required: bool = False
    longest: int = 1000
    """Of a text, in characters."""
    most: int = 32
    """Of a list, in entries."""


@dataclass(frozen=True)
class Example:
    """A use that shows what the grader is for; the form begins with it."""

    parameters: Mapping[str, Any]
    expected: str
    answer: str


@dataclass(frozen=True)
class Rule:
    """A grader by name. `make` takes the parameters, filled in, and raises BadGrader where they do not fit together."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Mapping[str, Any]], Judge]
    example: Example
    compares_texts: bool = False
    """Whether a difference between answer and expected answer is what it scores, so that one may mark it."""
    parts: str = ""
    """What the parts of its verdicts are called, where it has parts."""


def read_parameters(rule: Rule, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter of the rule, the defaults filled in. Raises BadGrader."""
    known = {parameter.name for parameter in rule.parameters}
    strangers = sorted(set(given) - known)
    if strangers:
        have = f"It has {', '.join(sorted(known))}." if known else "It takes none."
        raise BadGrader(f"The grader {rule.name} has no parameter {strangers[0]}.", path=strangers[0], hint=have)
    return {parameter.name: _read(rule, parameter, given) for parameter in rule.parameters}


def _read(rule: Rule, parameter: Parameter, given: Mapping[str, Any]) -> Any:
    if parameter.name not in given:
        if parameter.is_required:
            raise BadGrader(f"The grader {rule.name} needs the parameter {parameter.name}.", path=parameter.name,
                            hint=parameter.help)
        return parameter.default
    value = given[parameter.name]
    reason = CHECKS[parameter.kind](value, parameter)
    if reason:
        raise BadGrader(f"{parameter.name} of the grader {rule.name} {reason}.", path=parameter.name,
                        hint=parameter.help)
    return value


def _flag(value: Any, parameter: Parameter) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _choice(value: Any, parameter: Parameter) -> str:
    return "" if value in parameter.choices else f"is {_shown(value)}; it must be {' or '.join(parameter.choices)}"


def _number(value: Any, parameter: Parameter) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        fits = is_number and math.isfinite(value) and value >= 0
    except OverflowError:
        fits = False
    return "" if fits else f"is {_shown(value)}; it must be a number of at least 0"


def _text(value: Any, parameter: Parameter) -> str:
    if not isinstance(value, str) or not value:
        return f"is {_shown(value)}; it must be a text"
    if len(value) > parameter.longest:
        return f"has {len(value)} characters; at most {parameter.longest} are taken"
    return ""


def _texts(value: Any, parameter: Parameter) -> str:
    if not isinstance(value, list) or not 1 <= len(value) <= parameter.most:
        return f"must be a list of 1 to {parameter.most} texts"
    return next((f"holds an entry that {reason}" for reason in (_text(entry, parameter) for entry in value) if reason),
                "")


def _object(value: Any, parameter: Parameter) -> str:
    return "" if isinstance(value, dict) else f"is {_shown(value)}; it must be a JSON object"


def _terms(value: Any, parameter: Parameter) -> str:
    fits = isinstance(value, list) and 1 <= len(value) <= parameter.most and all(isinstance(one, dict) for one in value)
    return "" if fits else f"must be a list of 1 to {parameter.most} objects"


CHECKS: Mapping[str, Callable[[Any, Parameter], str]] = {
    "flag": _flag, "choice": _choice, "number": _number, "text": _text, "texts": _texts, "object": _object,
    "terms": _terms}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def said(names: Sequence[str]) -> str:
    """Names as a sentence lists them, the first five."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(_shown(name) for name in names[:5]) + more
