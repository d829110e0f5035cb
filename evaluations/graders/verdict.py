"""What a grader says of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Verdict:
    """What a grader says of one answer. `score` is None where it could not judge, and `cause` then says why.

    A wrong answer is a zero; an answer that cannot be judged is unscored. `is_exact` tells whether nothing is wrong
    with the answer; `fields` holds the parts that were judged apart, each right or not.
    """

    score: float | None
    is_exact: bool | None = None
    fields: Mapping[str, bool] = field(default_factory=dict)
    explanation: str = ""
    cause: str = ""


def right(explanation: str = "") -> Verdict:
    """The whole score."""
    return Verdict(1.0, True, explanation=explanation)


def wrong(explanation: str) -> Verdict:
    """A zero, and why."""
    return Verdict(0.0, False, explanation=explanation)


def unscored(cause: str, explanation: str) -> Verdict:
    """No score: a stable cause to count by, and a sentence."""
    return Verdict(None, cause=cause, explanation=explanation)


def without_expected() -> Verdict:
    """The row gives nothing to compare with."""
    return unscored("expected_empty", "The expected answer is empty.")
