"""The rule graders as a term."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluations.graders import BadGrader, Judge, Verdict, judge_of
from evaluations.graders.verdict import unscored
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item, NotReady


class RuleScorer:
    """Scores answer by answer with one rule."""

    def __init__(self, judge: Judge):
        self._judge = judge

    def score(self, items: Sequence[Item]) -> Sequence[Verdict]:
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Verdict:
        """A rule that stumbles over an answer costs that answer its score and nothing else."""
        try:
            return self._judge(item.completion, item.expected)
        except Exception as error:
            return unscored("error", f"The grader failed: {type(error).__name__}: {error}")

    def close(self) -> None:
        return None


def make_rule(text: Any, limits: Limits, scratch: Path | None) -> RuleScorer:
    """The scorer of a rule's text. Raises NotReady."""
    try:
        return RuleScorer(judge_of(str(text)))
    except BadGrader as error:
        raise NotReady("malformed_grader", error.detail, error.hint) from error
