"""The page of graders: choose one, paste an answer, see the verdict before anything is spent."""

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from evaluations.graders import RULES, Parameter, Rule
from evaluations.rules import rule_of, tried
from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import NotFound, OperationError
from optimize_site.kernel.htmx import HtmxRequest

LONG = frozenset({"texts", "object", "terms"})


@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HtmxRequest) -> HttpResponse:
    """A grader's form, filled with its example or with what `reference` says; once sent, the verdict."""
    if request.method == "POST":
        return _judged(request)
    if request.GET.get("reference"):
        parsed = rule_of(request.GET["reference"])
        return render(request, "evaluations/graders.html", _form(parsed.rule, _written(parsed.rule, parsed.stated)))
    rule = _rule(request.GET.get("grader", next(iter(RULES))))
    shown = _written(rule, rule.example.parameters) | {
        "expected": rule.example.expected, "answer": rule.example.answer}
    return render(request, "evaluations/graders.html", _form(rule, shown))


def _judged(request: HtmxRequest) -> HttpResponse:
    rule, sent = _rule(request.POST.get("grader", "")), request.POST
    answer, expected = sent.get("answer", ""), sent.get("expected", "")
    try:
        stated = _stated(rule, sent)
        found = tried(f"{rule.name}:{json.dumps(stated)}" if stated else rule.name, [(answer, expected)])
        outcome: dict[str, Any] = {"found": found, "verdict": found["verdicts"][0]}
    except OperationError as error:
        outcome = {"error": error}
    if request.htmx:
        return render(request, "evaluations/graders.html#verdict", outcome)
    status = outcome["error"].status if "error" in outcome else 200
    return render(request, "evaluations/graders.html", _form(rule, sent) | outcome, status=status)


def _rule(name: str) -> Rule:
    if name not in RULES:
        raise NotFound(f"There is no grader {name[:60]!r}.", hint=f"The graders are {', '.join(RULES)}.")
    return RULES[name]


def _form(rule: Rule, shown: Mapping[str, Any]) -> dict[str, Any]:
    fields = [{"parameter": parameter, "value": shown.get(parameter.name, ""), "is_long": parameter.kind in LONG}
              for parameter in rule.parameters]
    return {"rule": rule, "rules": list(RULES.values()), "fields": fields, "expected": shown.get("expected", ""),
            "answer": shown.get("answer", "")}


def _written(rule: Rule, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the form's fields hold them."""
    return {parameter.name: _text(parameter, stated[parameter.name]) for parameter in rule.parameters
            if parameter.name in stated}


def _text(parameter: Parameter, value: Any) -> str:
    if parameter.kind == "texts":
        return "\n".join(value)
    if parameter.kind in LONG:
        return json.dumps(value, indent=2, ensure_ascii=False)
    return str(value) if parameter.kind != "flag" else "on" if value else ""


def _stated(rule: Rule, sent: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the form states; an empty field leaves the default. Raises InvalidInput."""
    return {parameter.name: _value(parameter, sent[parameter.name]) for parameter in rule.parameters
            if sent.get(parameter.name, "").strip()}


def _value(parameter: Parameter, text: str) -> Any:
    if parameter.kind == "flag":
        return True
    if parameter.kind == "texts":
        return [line for line in text.splitlines() if line.strip()]
    if parameter.kind in LONG:
        return parse_document(text, name=parameter.name)
    return _number(text) if parameter.kind == "number" else text


def _number(text: str) -> Any:
    """The number, or the text itself for the grader to refuse."""
    try:
        return json.loads(text)
    except ValueError:
        return text
