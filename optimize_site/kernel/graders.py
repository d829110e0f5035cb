"""The grader grammar: what a workload, a run or an evaluation may name to score answers. Pure.

Rules are written `NAME` or `NAME:{parameters as a JSON object}`. Who keeps evaluations knows them and offers them here.
"""

from dataclasses import dataclass
from typing import Protocol

from optimize_site.kernel.errors import Refused, Unavailable

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


class MalformedGrader(Refused):
    code = "malformed_grader"


class GraderNotAvailable(Refused):
    code = "grader_not_available"


class Rules(Protocol):
    """Who knows the rule graders."""

    def canonical(self, text: str) -> str:
        """The one text of the rule grader that `text` names. Raises MalformedGrader."""


_rules: Rules | None = None


def provide(rules: Rules) -> None:
    """Called once by the app that keeps evaluations."""
    global _rules
    _rules = rules


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


def available_grader(text: str) -> str:
    """The one text of a grader that this box can score with. Raises MalformedGrader or GraderNotAvailable.

    Two texts mean the same grader where what comes back is the same.
    """
    target = parse_target(text)
    if target is not None:
        raise GraderNotAvailable(f"The grader {text!r} cannot be used yet: {target.kind} graders are not available in "
                                 "this version.", hint="Use a rule; `graders list` shows them.")
    if _rules is None:
        raise Unavailable("Nothing on this box knows the rule graders.")
    return _rules.canonical(text)
