"""The page of graders: choose one, paste an answer, see the verdict before anything is spent."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from evaluations.graders import RULES, Rule
from evaluations.rules import parameter_document, rule_of
from evaluations.scoring.terms import Item
from evaluations.trying import KINDS, Kind, tried
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import NotFound, OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.parameter_fields import ParameterField, read, written

CALLED = {"model": "Model", "http": "URL", "bundle": "Function"}
"""What the form calls that which a grader of the kind names."""


@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HtmxRequest) -> HttpResponse:
    """A grader's form, filled with its example or with what `reference` says; once sent, the verdict."""
    if request.method == "POST":
        return _judged(request)
    if request.GET.get("reference"):
        return render(request, "evaluations/graders.html", _named(request.GET["reference"]))
    chosen = _chosen(request.GET.get("grader", next(iter(RULES))))
    shown: dict[str, Any] = {}
    if isinstance(chosen, Rule):
        shown = _written(chosen, chosen.example.parameters) | {
            "expected": chosen.example.expected, "answer": chosen.example.answer}
    return render(request, "evaluations/graders.html", _form(chosen, shown))


def _named(reference: str) -> dict[str, Any]:
    kind = KINDS.get(reference.strip().partition(":")[0])
    if kind is not None:
        return _form(kind, {"target": reference.strip().partition(":")[2]})
    parsed = rule_of(reference)
    return _form(parsed.rule, _written(parsed.rule, parsed.stated))


def _judged(request: HtmxRequest) -> HttpResponse:
    chosen, sent = _chosen(request.POST.get("grader", "")), request.POST
    try:
        told = sent.get("instructions", "") if isinstance(chosen, Kind) else ""
        found = tried(_reference(chosen, sent), [_item(sent)], actor=actor_of(request), told=told)
        outcome: dict[str, Any] = {"found": found, "verdict": found["verdicts"][0]}
    except OperationError as error:
        outcome = {"error": error}
    if request.htmx:
        return render(request, "evaluations/graders.html#verdict", outcome)
    status = outcome["error"].status if "error" in outcome else 200
    return render(request, "evaluations/graders.html", _form(chosen, sent) | outcome, status=status)


def _reference(chosen: Rule | Kind, sent: Mapping[str, Any]) -> str:
    if isinstance(chosen, Kind):
        return f"{chosen.name}:{sent.get('target', '').strip()}"
    stated = _stated(chosen, sent)
    return f"{chosen.name}:{json.dumps(stated)}" if stated else chosen.name


def _item(sent: Mapping[str, Any]) -> Item:
    asked = sent.get("asked", "").strip()
    prompt = [{"role": "user", "content": asked}] if asked else []
    return Item(0, prompt, sent.get("answer", ""), sent.get("expected", ""))


def _chosen(name: str) -> Rule | Kind:
    found = RULES.get(name) or KINDS.get(name)
    if found is None:
        raise NotFound(f"There is no grader {name[:60]!r}.", hint=f"The graders are {', '.join([*RULES, *KINDS])}.")
    return found


def _form(rule: Rule | Kind, shown: Mapping[str, Any]) -> dict[str, Any]:
    fields = [ParameterField(parameter_document(parameter), parameter.name, shown.get(parameter.name, ""),
                             CALLED.get(rule.name, "") if parameter.name == "target" else "")
              for parameter in rule.parameters]
    return {"rule": rule, "rules": [*RULES.values(), *KINDS.values()], "fields": fields,
            "asks_prompt": isinstance(rule, Kind), "asked": shown.get("asked", ""),
            "expected": shown.get("expected", ""), "answer": shown.get("answer", "")} | _from_a_terminal(rule, shown)


def _from_a_terminal(rule: Rule | Kind, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The command and the body of the request that try what the form holds; the bare grader where that is refused."""
    try:
        reference = _reference(rule, shown)
    except OperationError:
        reference = rule.name
    row = {"answer": shown.get("answer", ""), "expected": shown.get("expected", "")}
    told = shown.get("instructions", "").strip() if isinstance(rule, Kind) else ""
    flags = [f"--{name} {shlex.quote(text)}" for name, text in row.items() if text or name == "answer"]
    flags += [f"--grader-instructions {shlex.quote(told)}"] if told else []
    return {"command": " ".join(["graders run", shlex.quote(reference), *flags]),
            "body": {"grader": reference, "rows": [row]} | ({"graderInstructions": told} if told else {})}


def _written(rule: Rule, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the form's fields hold them."""
    return {parameter.name: written(parameter.kind, stated[parameter.name]) for parameter in rule.parameters
            if parameter.name in stated}


def _stated(rule: Rule, sent: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the form states; an empty field leaves the default. Raises InvalidInput."""
    return {parameter.name: read(parameter.kind, parameter.name, sent[parameter.name]) for parameter in rule.parameters
            if sent.get(parameter.name, "").strip()}
