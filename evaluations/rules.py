"""The rule graders as the box's errors and documents tell of them."""

import json
from typing import Any

from evaluations.graders import RULES, BadGrader, Parameter, Rule, Verdict, parse_reference
from evaluations.graders.registry import Parsed
from optimize_site.kernel.graders import FORMS, MalformedGrader


class KnownRules:
    """What the kernel's grammar asks."""

    def canonical(self, text: str) -> str:
        return rule_of(text).reference

    def documents(self) -> list[dict[str, Any]]:
        return [rule_document(rule) for rule in RULES.values()]

    def stated(self, text: str) -> tuple[str, dict[str, Any]]:
        parsed = rule_of(text)
        return parsed.rule.name, dict(parsed.stated)

    def score(self, text: str, answer: str, expected: str) -> float | None:
        return rule_of(text).judge(answer, expected).score


def rule_of(text: str) -> Parsed:
    """The rule grader that a reference names. Raises MalformedGrader."""
    try:
        return parse_reference(text.strip())
    except BadGrader as error:
        hint = error.hint if text.strip().partition(":")[0] in RULES else f"{error.hint} {FORMS}"
        raise MalformedGrader(error.detail, hint=hint) from error


def compares_texts(reference: str) -> bool:
    """Whether the grader scores by how far the answer is the expected text, so that one may mark the difference."""
    rule = RULES.get(reference.partition(":")[0])
    return rule is not None and rule.compares_texts


def is_rule(reference: str) -> bool:
    """Whether the grader is one of the rules."""
    return reference.partition(":")[0] in RULES


def parts_of(reference: str) -> str:
    """What the parts of the grader's verdicts are called: field, term; empty where it has none."""
    rule = RULES.get(reference.partition(":")[0])
    return rule.parts if rule is not None else ""


def rule_document(rule: Rule) -> dict[str, Any]:
    """A grader: what it does, its parameters, and an example of a whole reference."""
    return {"name": rule.name, "summary": rule.summary,
            "parameters": [parameter_document(parameter) for parameter in rule.parameters],
            "example": {"grader": example_reference(rule), "expected": rule.example.expected,
                        "answer": rule.example.answer}}


def parameter_document(parameter: Parameter) -> dict[str, Any]:
    """A parameter of a grader, as programs and forms read it."""
    return {"name": parameter.name, "kind": parameter.kind, "help": parameter.help,
            "required": parameter.is_required, "default": parameter.default, "choices": list(parameter.choices)}


def example_reference(rule: Rule) -> str:
    """The grader of its example, written out."""
    stated = dict(rule.example.parameters)
    return parse_reference(f"{rule.name}:{json.dumps(stated)}" if stated else rule.name).reference


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict; `score` is null where there is none."""
    return {"score": verdict.score, "isExact": verdict.is_exact, "fields": dict(verdict.fields),
            "explanation": verdict.explanation, "unscoredCause": verdict.cause or None}
