"""The grader grammar: what a workload, a run or an evaluation may name to score answers. Pure.

Rules are written `NAME` or `NAME:{parameters as a JSON object}`. Who keeps evaluations knows them and offers them here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from optimize_site.kernel.errors import InvalidInput, Refused, Unavailable

DEFAULT = "json-label-match"
FORMS = "`graders list` shows the rules; beside them stand model:MODEL, http:URL and bundle:REF#MODULE[:FUNCTION]."
TARGETED = ("model", "http", "bundle")


@dataclass(frozen=True)
class Target:
    """A grader that is something else's work: `kind` is model, http or bundle; `target` what it names."""

    kind: str
    target: str = ""
    module: str = ""
    function: str = ""


LONGEST_INSTRUCTIONS = 8000


class InstructionsDoNotApply(Refused):
    code = "grader_instructions_do_not_apply"


class InstructionsTooLong(InvalidInput):
    code = "grader_instructions_too_long"


class MalformedGrader(Refused):
    code = "malformed_grader"


class GraderNotAvailable(Refused):
    code = "grader_not_available"


class Rules(Protocol):
    """Who knows the rule graders."""

    def canonical(self, text: str) -> str:
        """The one text of the rule grader that `text` names. Raises MalformedGrader."""

    def documents(self) -> list[dict[str, Any]]:
        """Every rule: its name, its summary, its `parameters` with their kinds, an example."""

    def stated(self, text: str) -> tuple[str, dict[str, Any]]:
        """The name of the rule that `text` names, and the parameters it states. Raises MalformedGrader."""

    def score(self, text: str, answer: str, expected: str) -> float | None:
        """What the rule that `text` names gives an answer; None where it gives no score. Raises MalformedGrader."""


Canonical = Callable[[Target, str], str]
"""Takes a target and the namespace in which bare names are looked for first; gives the grader's one text, in which
what it names is one version. Raises MalformedGrader, GraderNotAvailable, UnknownVersion."""

_rules: Rules | None = None
_targets: dict[str, Canonical] = {}


def provide_target(kind: str, canonical: Canonical) -> None:
    """Called once for each kind of target by the app that can have it score."""
    _targets[kind] = canonical


def provide(known: Rules) -> None:
    """Called once by the app that keeps evaluations."""
    global _rules
    _rules = known


def parse_target(text: str) -> Target | None:
    """`model:REF`, `http:URL` or `bundle:REF#MODULE[:FUNCTION]`; None for a rule. Raises MalformedGrader."""
    kind, colon, target = text.strip().partition(":")
    if kind not in TARGETED or not colon:
        return None
    if not target:
        raise MalformedGrader(f"The grader {text!r} names nothing after {kind}:.", hint=FORMS)
    return _parse_bundle(text, target) if kind == "bundle" else Target(kind, target)


def _parse_bundle(text: str, target: str) -> Target:
    reference, mark, place = target.partition("#")
    module, _, function = place.partition(":")
    if not (reference and mark and module):
        raise MalformedGrader(f"The grader {text!r} names no module.", hint=FORMS)
    return Target("bundle", reference, module, function or "compute_score")


def rules() -> Rules:
    """Who knows the rule graders. Raises Unavailable where nobody does."""
    if _rules is None:
        raise Unavailable("Nothing on this box knows the rule graders.")
    return _rules


def available_grader(text: str, *, namespace: str = "") -> str:
    """The one text of a grader that this box can score with. Raises MalformedGrader or GraderNotAvailable, or
    UnknownVersion where it names a model or a bundle that is not registered.

    Two texts mean the same grader where what comes back is the same: a model or a bundle is named by its version, so
    that a text once kept never means another. Bare names are looked for in `namespace` first.
    """
    target = parse_target(text)
    if target is not None:
        return _available_target(text, target, namespace)
    return rules().canonical(text)


def _available_target(text: str, target: Target, namespace: str) -> str:
    canonical = _targets.get(target.kind)
    if canonical is None:
        raise GraderNotAvailable(f"The grader {text!r} cannot be used yet: {target.kind} graders are not available in "
                                 "this version.", hint="Use a rule; `graders list` shows them.")
    return canonical(target, namespace)


def check_instructions(grader: str, stated: str) -> str:
    """What a grader is told, without the white space around it, and with the line ends that a form sends written as
    all others are: the same words are the same instructions wherever they were stated. Raises InstructionsDoNotApply
    where something is stated and no model grades, InstructionsTooLong."""
    stated = stated.replace("\r\n", "\n")
    target = parse_target(grader) if stated.strip() and grader else None
    if stated.strip() and (target is None or target.kind != "model"):
        raise InstructionsDoNotApply(f"Instructions are for a model that judges, and the grader is {grader or 'none'}.",
                                     hint="Leave graderInstructions out, or name a grader model:MODEL.")
    if len(stated) > LONGEST_INSTRUCTIONS:
        raise InstructionsTooLong(f"The grader's instructions have {len(stated)} characters; at most "
                                  f"{LONGEST_INSTRUCTIONS} are taken.", hint="Shorten them.")
    return stated.strip()
