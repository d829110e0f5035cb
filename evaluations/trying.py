"""Whether a grader can be used and what it says of a few answers, before anything is spent."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluations.bundle_graders import bundle_facts
from evaluations.errors import GraderNotReady
from evaluations.graders import Verdict, judge_of
from evaluations.graders.rule import Parameter, read_parameters
from evaluations.judge_trial import ask_judge, tried_judge
from evaluations.judging import model_named
from evaluations.rules import rule_of, verdict_document
from evaluations.scorers import scorer_of, scores_as_answered, term_of
from evaluations.scoring.addresses import MAX_URL
from evaluations.scoring.protocol import item_document, read_verdict
from evaluations.scoring.terms import Item
from evaluations.services import service_facts
from evaluations.statistics import mean
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import InvalidInput, Unavailable
from optimize_site.kernel.graders import Target, available_grader, check_instructions, parse_target
from optimize_site.kernel.scoring import scorer_environment

MAX_ROWS = 20
SECONDS, ALL_SECONDS = 10.0, 60.0
"""The longest that a grader which is tried may take over one answer, and over all of them."""


@dataclass(frozen=True)
class Kind:
    """A kind of grader that is no rule: what it is, what its name is followed by, and what one of them goes by."""

    name: str
    summary: str
    target: Parameter
    facts: Callable[[Target], dict[str, Any]]
    beside: tuple[Parameter, ...] = ()
    """What is stated beside its name."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (self.target, *self.beside)


def _target(help: str) -> Parameter:
    return Parameter("target", "text", help, is_required=True, longest=MAX_URL)


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (
    Kind("http", "What a service that somebody runs says of an answer.",
         _target("The service's whole URL; its host must be one that the operator lists."), service_facts),
    Kind("bundle", "What a function of your own says of an answer.",
         _target("NS/NAME[:VERSION]#MODULE[:FUNCTION]; the function is compute_score unless said."), bundle_facts),
    Kind("model", "What a registered model says of an answer.", _target("NS/NAME[:VERSION]"),
         lambda target: {"model": target.target},
         (Parameter("instructions", "text", "What the judge is told; else what it inherits. Ask for JSON with a score "
                    "from 0 to 1 and a reason."),)))}


def validated(reference: str, *, told: str = "") -> dict[str, Any]:
    """A grader that can be used, with every parameter it goes by; `told` are the instructions stated for a judge.

    Raises MalformedGrader, GraderNotAvailable, HostNotAllowed, UnknownVersion, InstructionsDoNotApply,
    InstructionsRequired, BaseModelNotReady.
    """
    grader = available_grader(reference)
    target = parse_target(grader)
    if target is not None and target.kind == "model":
        judge = tried_judge(grader, told)
        return {"valid": True, "grader": grader, "name": target.kind, "summary": KINDS[target.kind].summary,
                "parameters": {"model": judge.reference, "instructions": judge.instructions,
                               "instructionsSource": judge.source}}
    check_instructions(grader, told)
    if target is not None:
        kind = KINDS[target.kind]
        return {"valid": True, "grader": grader, "name": target.kind, "summary": kind.summary,
                "parameters": kind.facts(target)}
    parsed = rule_of(grader)
    return {"valid": True, "grader": grader, "name": parsed.rule.name, "summary": parsed.rule.summary,
            "parameters": read_parameters(parsed.rule, parsed.stated)}


def tried(reference: str, items: Sequence[Item], *, actor: Actor, told: str = "") -> dict[str, Any]:
    """The verdicts of a grader on a few answers. Asking anything but a rule is an operator's, as an evaluation is.

    Raises MalformedGrader, GraderNotAvailable, HostNotAllowed, UnknownVersion, InvalidInput, Forbidden, GraderNotReady,
    InstructionsDoNotApply, InstructionsRequired, BaseModelNotReady, Unavailable.
    """
    grader = available_grader(reference)
    if not 1 <= len(items) <= MAX_ROWS:
        raise InvalidInput(f"{len(items)} rows were sent; a grader is tried on 1 to {MAX_ROWS}.",
                           hint="An evaluation judges a whole dataset.", code="too_many_rows")
    verdicts = _verdicts(grader, items, actor, told)
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return {"grader": grader, "meanScore": mean(scores) if scores else None, "scored": len(scores),
            "unscored": len(verdicts) - len(scores), "verdicts": [verdict_document(verdict) for verdict in verdicts]}


def _verdicts(grader: str, items: Sequence[Item], actor: Actor, told: str) -> Sequence[Verdict]:
    if model_named(grader):
        actor.require("operator")
        return ask_judge(grader, told, items)
    check_instructions(grader, told)
    if scores_as_answered(grader):
        judge = judge_of(grader)
        return [judge(item.completion, item.expected) for item in items]
    actor.require("operator")
    return ask_scorer(term_of(grader), items)


def ask_scorer(term: dict[str, Any], items: Sequence[Item]) -> Sequence[Verdict]:
    """What one term says of a few answers, in a scorer process of their own. Raises GraderNotReady, Unavailable."""
    with tempfile.TemporaryDirectory(prefix="optimize-scoring-") as folder:
        scorer = scorer_of(term, Path(folder), seconds=SECONDS)
        lines = [scorer["spec"], {"id": 1, "items": [item_document(item) for item in items]}]
        said = _run(scorer, "".join(json.dumps(line) + "\n" for line in lines))
    if not said or not said[0].get("ready"):
        refusal = said[0] if said else {"reason": "The process that scores did not start."}
        raise GraderNotReady(str(refusal.get("reason")), hint=str(refusal.get("hint") or ""),
                             scorerCode=refusal.get("code"))
    if len(said) < 2 or "terms" not in said[1]:
        raise Unavailable("The process that scores ended before it said anything.", hint="Try fewer answers.")
    return [read_verdict(verdict) for verdict in said[1]["terms"][0]["verdicts"]]


def _run(scorer: Mapping[str, Any], lines: str) -> list[dict[str, Any]]:
    try:
        ended = subprocess.run(scorer["command"], input=lines, cwd=scorer["cwd"], env=scorer_environment(),
                               capture_output=True, text=True, timeout=ALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"The grader did not judge the answers within {ALL_SECONDS:g} seconds.",
                          hint="Try fewer answers.") from error
    return [json.loads(line) for line in ended.stdout.splitlines()]
