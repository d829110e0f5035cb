"""The reward of the guided form: its terms one by one, what each is scored by, and the document that they write.

A term's inputs are named `term.N.FIELD`, a rule's parameters `term.N.p.NAME`. What scores is one choice: a rule by its
name, the run's grader, a bundle's function, a model, or a service. A term that these inputs would give back changed
stands as it is written, so that nothing of it is lost.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import InvalidInput, OperationError
from optimize_site.kernel.graders import available_grader, parse_target, rules
from optimize_site.kernel.parameter_fields import ParameterField, is_kept, read, sent_text, written

RUN, BUNDLE, MODEL, SERVICE, WRITTEN = "run", "bundle", "model", "http", "written"
OTHERS = {RUN: "The run's grader", BUNDLE: "A bundle's function", MODEL: "A model that judges",
          SERVICE: "A service of yours", WRITTEN: "As a descriptor writes it"}
FIRST = "exact"
PREFIX, MOST = "term", 32


def _text(name: str, help: str, *, default: Any = None, required: bool = False, kind: str = "text") -> dict[str, Any]:
    return {"name": name, "kind": kind, "help": help, "default": default, "choices": [], "required": required}


ASKED: Mapping[str, Sequence[Mapping[str, Any]]] = {
    RUN: (_text("instructions", "What it is told where it is a model; left empty, what the run says below.",
                kind="prose"),),
    BUNDLE: (_text("bundle", "The bundle, by name or hash.", required=True),
             _text("module", "Its module.", required=True),
             _text("function", "The function.", default="compute_score")),
    MODEL: (_text("model", "The registered model that judges.", required=True),
            _text("instructions", "What it is told; left empty, what it was trained with or the built-in words.",
                  default="its own", kind="prose")),
    SERVICE: (_text("url", "The whole address of the service; its host must be one that the operator lists.",
                    required=True),),
    WRITTEN: (_text("term", "The term without its weight: `kind`, and what that kind has.", required=True,
                    kind="object"),),
}


@dataclass(frozen=True)
class TermForm:
    """One term as the form holds it: what scores, its weight, and the inputs below, by their names."""

    scorer: str
    weight: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The term as a descriptor writes it. Raises InvalidInput for a written one that is no document, or that has
        a weight beside its input's."""
        weight = {"weight": _number(self.weight)} if self.weight.strip() else {}
        if self.scorer == WRITTEN:
            return self._written(weight)
        if self.scorer == BUNDLE:
            return {"kind": "rule"} | weight | self._stated("bundle", "module", "function")
        if self.scorer == MODEL:
            return {"kind": "model"} | weight | self._stated("model", "instructions")
        if self.scorer == RUN:
            return {"kind": "grader"} | weight | self._stated("instructions")
        if self.scorer == SERVICE:
            return {"kind": "grader"} | weight | {"grader": f"http:{self.values.get('url', '').strip()}"}
        return {"kind": "grader"} | weight | {"grader": self._rule()}

    def _stated(self, *names: str) -> dict[str, Any]:
        return {name: sent_text(self.values[name]) for name in names if self.values.get(name, "").strip()}

    def _written(self, weight: dict[str, Any]) -> dict[str, Any]:
        found = parse_document(self.values.get("term", "").strip() or "{}", name="The term")
        if not isinstance(found, dict):
            raise InvalidInput("A term of the reward is an object.", code="malformed_document",
                               hint="Write it as a descriptor does, such as `kind: grader`.")
        if weight and "weight" in found:
            raise InvalidInput("A term of the reward has a weight of its own and one in what is written.",
                               hint="Leave one of them out.", code="stated_twice")
        return found | weight

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
    """The terms of a descriptor's reward as the form holds them: each gives its document back."""
    terms = reward.get("terms") if isinstance(reward, Mapping) else None
    return [_of_document(term) for term in terms or [] if isinstance(term, Mapping)]


def _of_document(term: Mapping[str, Any]) -> TermForm:
    stated = {name: value for name, value in term.items() if value is not None}
    weight = f"{stated['weight']}" if "weight" in stated else ""
    shown = _shown(stated, weight)
    if shown is not None and _gives_back(shown, stated):
        return shown
    held = {name: value for name, value in stated.items() if name != "weight" or _number(weight) != value}
    return TermForm(WRITTEN, weight if "weight" not in held else "",
                    {"term": json.dumps(held, indent=2, ensure_ascii=False)})


def _shown(term: Mapping[str, Any], weight: str) -> TermForm | None:
    """The inputs that a term would stand in; None where there are none for it."""
    if term.get("kind") in {"rule", "model"}:
        scorer = BUNDLE if term["kind"] == "rule" else MODEL
        return TermForm(scorer, weight, _texts(term))
    if "grader" not in term:
        return TermForm(RUN, weight, _texts(term))
    grader = str(term["grader"])
    try:
        target = parse_target(grader)
        if target is None:
            return _rule(grader, weight)
    except OperationError:
        return None
    return TermForm(SERVICE, weight, {"url": target.target}) if target.kind == "http" else None


def _texts(term: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in term.items() if name not in {"kind", "weight"}}


def _rule(grader: str, weight: str) -> TermForm:
    name, stated = rules().stated(grader)
    kinds = {parameter["name"]: parameter["kind"] for parameter in parameters_of(name)}
    return TermForm(name, weight, {f"p.{key}": written(kinds[key], value) for key, value in stated.items()})


def _gives_back(shown: TermForm, term: Mapping[str, Any]) -> bool:
    """Whether the inputs hold what the term states, and what they send is the term again."""
    if not all(is_kept(entry.value, is_long=entry.is_long) for entry in shown.fields(0)):
        return False
    return _by_grader(shown.document()) == _by_grader(term)


def _by_grader(term: Mapping[str, Any]) -> dict[str, Any]:
    """A term with the one text of its rule, however that was written."""
    grader = term.get("grader")
    try:
        is_rule = isinstance(grader, str) and parse_target(grader) is None
        return {**term, "grader": available_grader(str(grader))} if is_rule else dict(term)
    except OperationError:
        return dict(term)


def changed(terms: list[TermForm], action: str, offered: Callable[[], tuple[str, float]]) -> list[TermForm]:
    """The terms after a button: `add`, `format`, or `remove-N`. `offered` gives the grader and the weight of the run's
    format term; a first term beside it is the run's grader itself, which it was before."""
    what, _, number = action.partition("-")
    if what == "remove" and number.isdecimal():
        return [term for at, term in enumerate(terms) if at != int(number)]
    kept = terms or [TermForm(RUN)]
    if what == "add":
        return [*kept, TermForm(FIRST)][:MOST]
    if what == "format":
        grader, weight = offered()
        return [*kept, _of_document({"kind": "grader", "grader": grader, "weight": weight})][:MOST]
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
