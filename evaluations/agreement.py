"""How far a grader agrees with people: the share of answers both take alike, and Cohen's kappa. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

RIGHT_FROM = 0.5
"""A score counts as right from here, a person's and a grader's alike."""


@dataclass(frozen=True)
class Agreement:
    """Answers that people marked and a grader scored. `counts` holds how many were right or wrong to each.

    `unscored` counts the marked answers to which the grader gave no score; they are in nothing else.
    """

    compared: int
    both_right: int
    both_wrong: int
    only_people: int
    only_grader: int
    mean_difference: float | None
    unscored: int = 0

    @property
    def share(self) -> float | None:
        """The share of the compared answers that both take alike."""
        return (self.both_right + self.both_wrong) / self.compared if self.compared else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: the agreement beyond what their habits alone would give; 1 is full, 0 none beyond chance.

        None where chance alone gives full agreement, because both always say the same: nothing can be told then.
        """
        if not self.compared:
            return None
        # In counts, so that no agreement beyond chance is 0 and not a little less.
        people, grader, answers = self.both_right + self.only_people, self.both_right + self.only_grader, self.compared
        chance = people * grader + (answers - people) * (answers - grader)
        beyond = (self.both_right + self.both_wrong) * answers - chance
        return None if chance == answers ** 2 else beyond / (answers ** 2 - chance)


def agreement(pairs: Sequence[tuple[float, float | None]]) -> Agreement:
    """Of each answer what people say, between 0 and 1, and the grader's score, None where it gave none."""
    scored = [(people, score) for people, score in pairs if score is not None]
    verdicts = [(people >= RIGHT_FROM, score >= RIGHT_FROM) for people, score in scored]
    difference = sum(score - people for people, score in scored) / len(scored) if scored else None
    return Agreement(len(scored), verdicts.count((True, True)), verdicts.count((False, False)),
                     verdicts.count((True, False)), verdicts.count((False, True)), difference,
                     len(pairs) - len(scored))


def agreement_document(found: Agreement) -> dict[str, Any]:
    """As it is shown."""
    return {"compared": found.compared, "agreement": found.share, "kappa": found.kappa, "unscored": found.unscored,
            "counts": {"bothRight": found.both_right, "bothWrong": found.both_wrong,
                       "rightToPeopleOnly": found.only_people, "rightToGraderOnly": found.only_grader},
            "meanDifference": found.mean_difference}
