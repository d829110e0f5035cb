"""Every rule grader by name, and how one is written down.

A reference is the grader's name, or the name, a colon and its parameters as a JSON object: `exact`,
`exact:{"ignoreCase":true}`. Two references mean the same grader where their canonical texts are equal: parameters in
the order of the alphabet, without those that have their default, without white space.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import answer_line, contains, exact, json_label_match, json_schema, numeric, regular_expression
from .json_values import is_deep
from .rule import BadGrader, Example, Judge, Rule, read_parameters
from .weighted import weighted_rule

MAX_REFERENCE, MAX_NESTING = 2000, 50
SIMPLE: dict[str, Rule] = {module.RULE.name: module.RULE for module in
          (json_label_match, exact, contains, regular_expression, numeric, answer_line, json_schema)}


@dataclass(frozen=True)
class Parsed:
    """A reference, read: its grader, its stated parameters, and its one canonical text."""

    rule: Rule
    stated: Mapping[str, Any]
    reference: str
    judge: Judge


def _parse(text: str, rules: Mapping[str, Rule]) -> Parsed:
    name, colon, rest = text.strip().partition(":")
    rule = rules.get(name)
    if rule is None:
        raise BadGrader(f"{text.strip()[:80]!r} is no grader.", hint=f"The graders are {', '.join(rules)}.")
    given = _object(name, rest) if colon else {}
    filled = read_parameters(rule, given)
    defaults = {parameter.name: parameter.default for parameter in rule.parameters}
    stated = {key: value for key, value in given.items() if not _same(value, defaults[key])}
    if rule.name == "weighted":
        stated = {"terms": [_term(term) for term in stated["terms"]]}
    judge = rule.make(filled)
    reference = f"{name}:{_text(stated)}" if stated else name
    if len(reference) > MAX_REFERENCE:
        raise BadGrader(f"The grader has {len(reference)} characters; at most {MAX_REFERENCE} are kept.",
                        hint="Shorten its parameters.")
    return Parsed(rule, stated, reference, judge)


def _term(term: Mapping[str, Any]) -> dict[str, Any]:
    """A term with its grader in canonical text and without the weight everybody has; bad ones are left to `make`."""
    kept = {key: value for key, value in term.items() if not (key == "weight" and _same(value, 1))}
    try:
        return kept | {"grader": _parse(term["grader"], SIMPLE).reference}
    except (BadGrader, KeyError, AttributeError):
        return kept


def _same(value: Any, default: Any) -> bool:
    return type(value) is not bool and value == default if type(default) is not bool else value is default


def _object(name: str, text: str) -> dict[str, Any]:
    hint = f'Write {name}, or {name}:{{"PARAMETER": VALUE}}.'
    if len(text) > 4 * MAX_REFERENCE:
        raise BadGrader(f"The parameters of the grader {name} have {len(text)} characters; at most {MAX_REFERENCE} are "
                        "kept.", hint="Shorten them.")
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        reason = "they nest too deep" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise BadGrader(f"The parameters of the grader {name} are no JSON: {reason}.", hint=hint) from error
    if is_deep(found, MAX_NESTING):
        raise BadGrader(f"The parameters of the grader {name} nest deeper than {MAX_NESTING} levels.", hint=hint)
    if not isinstance(found, dict):
        raise BadGrader(f"The parameters of the grader {name} are no JSON object: {text[:60]}.", hint=hint)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> Any:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _text(stated: Mapping[str, Any]) -> str:
    return json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


RULES = SIMPLE | {"weighted": weighted_rule(
    lambda text: _parse(text, SIMPLE).judge,
    Example({"terms": [{"grader": 'regex:{"pattern":"^\\\\S+$"}', "weight": 1, "name": "one word"},
                       {"grader": "exact", "weight": 3}]}, "billing", "Billing"))}


@lru_cache(maxsize=64)
def parse_reference(text: str) -> Parsed:
    """The grader a reference names. Raises BadGrader, one sentence for what is wrong first."""
    if any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in text):
        raise BadGrader("The grader holds a character that is no text.", hint="Take it out.")
    return _parse(text, RULES)


def judge_of(text: str) -> Judge:
    """What scores by this reference. Raises BadGrader."""
    return parse_reference(text).judge
