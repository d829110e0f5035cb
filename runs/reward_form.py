"""The reward of the guided form: its terms one by one, what each is scored by, and the document that they write.

A term's inputs are named `term.N.FIELD`, a rule's parameters `term.N.p.NAME`. What scores is one choice: a rule by its
name, the run's grader, a bundle's function, a model, or a service.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.graders import parse_target, rules
from optimize_site.kernel.parameter_fields import ParameterField, read, written
from runs.reward import format_term

RUN, BUNDLE, MODEL, SERVICE = "run", "bundle", "model", "http"
OTHERS = {RUN: "The run's grader", BUNDLE: "A bundle's function", MODEL: "A model that judges",
          SERVICE: "A service of yours"}
FIRST = "exact"
PREFIX, MOST = "term", 32


def _text(name: str, help: str, *, default: Any = None, required: bool = False, kind: str = "text") -> dict[str, Any]:
    return {"name": name, "kind": kind, "help": help, "default": default, "choices": [], "required": required}


ASKED: Mapping[str, Sequence[Mapping[str, Any]]] = {
    RUN: (),
    BUNDLE: (_text("bundle", "The bundle, by name or hash.", required=True),
             _text("module", "Its module.", required=True),
             _text("function", "The function.", default="compute_score")),
    MODEL: (_text("model", "The registered model that judges.", required=True),
            _text("instructions", "What it is told; left empty, what it was trained with or the built-in words.",
                  default="its own")),
    SERVICE: (_text("url", "The whole address of the service; its host must be one that the operator lists.",
                    required=True),),
}


@dataclass(frozen=True)
class TermForm:
    """One term as the form holds it: what scores, its weight, and the inputs below, by their names."""

    scorer: str
    weight: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The term as a descriptor writes it."""
        weight = {"weight": _number(self.weight)} if self.weight.strip() else {}
        if self.scorer == BUNDLE:
            return {"kind": "rule"} | weight | self._stated("bundle", "module", "function")
        if self.scorer == MODEL:
            return {"kind": "model"} | weight | self._stated("model", "instructions")
        if self.scorer == RUN:
            return {"kind": "grader"} | weight
        if self.scorer == SERVICE:
            return {"kind": "grader"} | weight | {"grader": f"http:{self.values.get('url', '').strip()}"}
        return {"kind": "grader"} | weight | {"grader": self._rule()}

    def _stated(self, *names: str) -> dict[str, Any]:
        return {name: self.values[name].strip() for name in names if self.values.get(name, "").strip()}

    def _rule(self) -> str:
        stated = {parameter["name"]: _read(parameter, self.values[f"p.{parameter['name']}"])
                  for parameter in parameters_of(self.scorer) if self.values.get(f"p.{parameter['name']}", "").strip()}
        return f"{self.scorer}:{json.dumps(stated)}" if stated else self.scorer

    def fields(self, number: int) -> list[ParameterField]:
        """The inputs below what scores."""
        if self.scorer in ASKED:
            return [ParameterField(asked, f"{PREFIX}.{number}.{asked['name']}", self.values.get(asked["name"], ""))
                    for asked in ASKED[self.scorer]]
        return [ParameterField(parameter, f"{PREFIX}.{number}.p.{parameter['name']}",
                               self.values.get(f"p.{parameter['name']}", ""))
                for parameter in parameters_of(self.scorer)]

    @property
    def summary(self) -> str:
        """What the rule does; empty for what is no rule."""
        return next((str(rule["summary"]) for rule in rules().documents() if rule["name"] == self.scorer), "")


def parameters_of(rule: str) -> list[dict[str, Any]]:
    """The parameters of a rule; none where there is no such rule."""
    return next((list(known["parameters"]) for known in rules().documents() if known["name"] == rule), [])


def choices() -> list[tuple[str, str]]:
    """What may score, the rules by their names first."""
    return [*((str(rule["name"]), str(rule["name"])) for rule in rules().documents()), *OTHERS.items()]


def terms_in(filled: Mapping[str, str]) -> list[TermForm]:
    """The terms that a sent form holds, in their order."""
    numbers = sorted({int(parts[1]) for name in filled if (parts := name.split("."))[0] == PREFIX
                      and len(parts) > 2 and parts[1].isdecimal()})
    return [_sent(filled, f"{PREFIX}.{number}.") for number in numbers[:MOST]]


def _sent(filled: Mapping[str, str], prefix: str) -> TermForm:
    own = {name.removeprefix(prefix): value for name, value in filled.items() if name.startswith(prefix)}
    return TermForm(own.pop("scorer", FIRST), own.pop("weight", ""), own)


def terms_of(reward: Any) -> list[TermForm]:
    """The terms of a descriptor's reward as the form holds them; one that cannot be read is left out."""
    terms = reward.get("terms") if isinstance(reward, Mapping) else None
    return [_of_document(term) for term in terms or [] if isinstance(term, Mapping)]


def _of_document(term: Mapping[str, Any]) -> TermForm:
    weight = "" if term.get("weight") is None else f"{term['weight']}"
    if term.get("kind") in {"rule", "model"}:
        scorer = BUNDLE if term["kind"] == "rule" else MODEL
        return TermForm(scorer, weight, {name: str(value) for name, value in term.items() if value is not None})
    grader = str(term.get("grader") or "")
    scorer, values = of_grader(grader) if grader else (RUN, {})
    return TermForm(scorer, weight, values)


def of_grader(grader: str) -> tuple[str, dict[str, str]]:
    """What a grader's text is in the form: the choice, and the inputs below it."""
    try:
        target = parse_target(grader)
        if target is None:
            name, stated = rules().stated(grader)
            kinds = {parameter["name"]: parameter["kind"] for parameter in parameters_of(name)}
            return name, {f"p.{key}": written(kinds[key], value) for key, value in stated.items()}
    except OperationError:
        return FIRST, {}
    if target.kind == "bundle":
        return BUNDLE, {"bundle": target.target, "module": target.module, "function": target.function}
    return (MODEL, {"model": target.target}) if target.kind == "model" else (SERVICE, {"url": target.target})


def changed(terms: list[TermForm], action: str, grader: str) -> list[TermForm]:
    """The terms after a button: `add`, `format`, or `remove-N`. `grader` is the run's, for which a format term is made;
    a first term beside it is the run's grader itself, which it was before."""
    what, _, number = action.partition("-")
    if what == "remove" and number.isdecimal():
        return [term for at, term in enumerate(terms) if at != int(number)]
    kept = terms or [TermForm(RUN)]
    if what == "add":
        return [*kept, TermForm(FIRST)][:MOST]
    if what == "format":
        grader, weight = format_term(grader)
        scorer, values = of_grader(grader)
        return [*kept, TermForm(scorer, f"{weight:g}", values)][:MOST]
    return terms


def _read(parameter: Mapping[str, Any], text: str) -> Any:
    """What an input states; text that should be JSON and is none stays as it is, for the grader to refuse."""
    try:
        return read(parameter["kind"], parameter["name"], text)
    except OperationError:
        return text


def _number(text: str) -> Any:
    try:
        return float(text) if not text.strip().lstrip("-").isdecimal() else int(text)
    except ValueError:
        return text
