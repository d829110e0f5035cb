"""When a reward's failures end its run: what scores nothing, update after update, is broken and no verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from optimize_child.failures import JobFailure
from optimize_child.reinforcement.rewards import Reward, RewardRule, TermScore

CODE = "reward_failed"


@dataclass
class Silence:
    """The updates in a row without a score: how many, the failures by cause, what the last one said."""

    updates: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    said: str = ""

    def grow(self, failed: Sequence[TermScore]) -> None:
        """Take in another update, in which all of these failed."""
        self.updates += 1
        self.causes.update(score.cause for score in failed)
        self.said = next((score.explanation for score in reversed(failed) if score.explanation), self.said)


class RewardFailures:
    """Ends a run after `most` updates in a row without a score; 0 is no limit.

    Where a failed term counts zero, each term with a weight is held to it; where it excludes its completion, the whole
    reward is, since an update of excluded completions teaches nothing.
    """

    def __init__(self, rule: RewardRule, most: int) -> None:
        self._rule, self._most = rule, most
        self._silences: dict[str, Silence] = {}

    def watch(self, step: int, rewards: Sequence[Reward]) -> None:
        """Note an update's rewards. Raises JobFailure `reward_failed` at the last one that is allowed."""
        for what, scores in self._held(rewards).items():
            silence = self._silences.setdefault(what, Silence())
            if any(score.score is not None for score in scores):
                self._silences[what] = Silence()
                continue
            silence.grow(scores)
            if self._most and silence.updates >= self._most:
                raise _failure(what, silence, step)

    def _held(self, rewards: Sequence[Reward]) -> dict[str, list[TermScore]]:
        """For all that is held to the limit a score of each completion, one that failed where any did."""
        if self._rule.excludes:
            return {"reward": [min(reward.terms, key=lambda term: term.score is not None) for reward in rewards]}
        weighted = [at for at, weight in enumerate(self._rule.weights.values()) if weight]
        names = list(self._rule.weights)
        return {f"reward's term {names[at]}": [reward.terms[at] for reward in rewards] for at in weighted}


def _failure(what: str, silence: Silence, step: int) -> JobFailure:
    causes = ", ".join(f"{cause} {count}" for cause, count in silence.causes.most_common())
    updates = f"{silence.updates} updates in a row" if silence.updates > 1 else "an update"
    said = f" The last one said: {silence.said}" if silence.said else ""
    return JobFailure(
        CODE,
        f"The {what} scored no completion of {updates}, the last being {step}; failures by cause: {causes}.{said}",
        hint="Mend what scores, trying it with `graders run`, and start again, or branch from the run's last save. "
        "The limit is trainer.rollouts.failed-updates in the box's settings.toml; 0 is none.",
        step=step,
        updates=silence.updates,
        causes=dict(silence.causes),
    )
