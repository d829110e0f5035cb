"""The grader grammar: what a workload, a run or an evaluation may name to score answers. Pure."""

from dataclasses import dataclass

from optimize_site.kernel.errors import Refused

DEFAULT = "json-label-match"
FORMS = "Write json-label-match, model:MODEL, http:URL or bundle:REF#MODULE[:FUNCTION]."
KINDS = (DEFAULT, "model:", "http:", "bundle:")


@dataclass(frozen=True)
class Grader:
    """A parsed grader: `kind` is json-label-match, model, http or bundle; `target` what the last three name."""

    kind: str
    target: str = ""
    module: str = ""
    function: str = ""

    @property
    def is_available(self) -> bool:
        """Whether this box can score with it."""
        return self.kind == DEFAULT


class MalformedGrader(Refused):
    code = "malformed_grader"


class GraderNotAvailable(Refused):
    code = "grader_not_available"


def parse_grader(text: str) -> Grader:
    """`json-label-match`, `model:REF`, `http:URL` or `bundle:REF#MODULE[:FUNCTION]`. Raises MalformedGrader."""
    text = text.strip()
    if text == DEFAULT:
        return Grader(DEFAULT)
    kind, colon, target = text.partition(":")
    if not colon or f"{kind}:" not in KINDS:
        raise MalformedGrader(f"{text!r} is no grader.", hint=FORMS)
    if not target:
        raise MalformedGrader(f"The grader {text!r} names nothing after {kind}:.", hint=FORMS)
    if kind == "bundle":
        return _parse_bundle(text, target)
    return Grader(kind, target)


def _parse_bundle(text: str, target: str) -> Grader:
    reference, mark, place = target.partition("#")
    module, _, function = place.partition(":")
    if not (reference and mark and module):
        raise MalformedGrader(f"The grader {text!r} names no module.", hint=FORMS)
    return Grader("bundle", reference, module, function or "compute_score")


def available_grader(text: str) -> Grader:
    """The parsed grader, if this box can score with it. Raises MalformedGrader or GraderNotAvailable."""
    grader = parse_grader(text)
    if not grader.is_available:
        raise GraderNotAvailable(f"The grader {text!r} cannot be used yet: {grader.kind} graders are not available in "
                                 "this version.", hint=f"Use {DEFAULT}.")
    return grader
