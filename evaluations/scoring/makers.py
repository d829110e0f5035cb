"""Which scorers there are: a maker for each way in which a term says what scores it.

A maker takes what stands under the term's key, the limits and the folder for scratch files, and raises NotReady where
nothing can be scored that way.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evaluations.bundles.scorer import make_bundle
from evaluations.scoring.http import SCHEME, make_http
from evaluations.scoring.judge import START_SECONDS, make_judge
from evaluations.scoring.rules import make_rule
from evaluations.scoring.spec import Limits, Spec, TermSpec
from evaluations.scoring.terms import NotReady, Scorer, Term

Maker = Callable[[Any, Limits, Path | None], Scorer]


def _make_grader(text: Any, limits: Limits, scratch: Path | None) -> Scorer:
    """A rule, or a service."""
    if str(text).startswith(SCHEME):
        return make_http(str(text), limits, scratch)
    return make_rule(text, limits, scratch)


MAKERS: Mapping[str, Maker] = {"grader": _make_grader, "bundle": make_bundle, "judge": make_judge}
"""By the key that a term holds: grader, bundle, judge."""


def make_terms(spec: Spec) -> list[Term]:
    """Every term of the spec with its scorer. Raises NotReady, having closed what it had made.

    They are made one after another, and judges are waited for until one moment, however many they are.
    """
    makers: dict[str, Maker] = {**MAKERS,
                                "judge": partial(make_judge, start_by=time.monotonic() + START_SECONDS)}
    made: list[Term] = []
    try:
        for term in spec.terms:
            made.append(_make(term, spec, makers))  # noqa: PERF401 - what was made before one that fails is closed
    except BaseException:
        close_terms(made)
        raise
    return made


def _make(term: TermSpec, spec: Spec, makers: Mapping[str, Maker]) -> Term:
    maker = makers.get(term.means)
    if maker is None:
        raise NotReady("grader_not_available", f"The term {term.name} is a {term.means}; this process scores "
                       f"{', '.join(makers)}.")
    return Term(term.name, maker(term.body, spec.limits, spec.scratch), waits=_waits(term))


def _waits(term: TermSpec) -> bool:
    return term.means != "grader" or str(term.body).startswith(SCHEME)


def close_terms(terms: list[Term]) -> None:
    """Let every scorer go."""
    for term in terms:
        term.scorer.close()
