"""From verdicts to rewards: the weighted sum of a completion's terms, and what a term that failed makes of it."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NEARLY = 1e-9


@dataclass(frozen=True)
class TermScore:
    """What one term said of one completion; `share` is its weighted part of the reward, None where it failed and the
    completion is left out for it."""

    name: str
    score: float | None
    share: float | None
    cause: str
    explanation: str

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "score": self.score, "share": self.share, "cause": self.cause,
                "explanation": self.explanation}  # fmt: skip


@dataclass(frozen=True)
class Reward:
    """A completion's reward; a total of None leaves it out of its group's statistics."""

    total: float | None
    terms: list[TermScore]

    @property
    def is_excluded(self) -> bool:
        return self.total is None


class RewardRule:
    """How verdicts add up: each term's weight, and whether a failed term counts zero or excludes its completion."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.weights = {term["name"]: float(term["weight"]) for term in spec["terms"]}
        self.excludes = spec["onFailure"] == "exclude"
        self.full = sum(weight for weight in self.weights.values() if weight > 0)

    def rewards(self, terms: Sequence[dict[str, Any]], count: int) -> list[Reward]:
        """The reward of each of `count` completions, from what the terms said of all of them."""
        said = [[self._term_score(term["name"], term["verdicts"][at]) for term in terms] for at in range(count)]
        return [self._reward(scores) for scores in said]

    def _term_score(self, name: str, verdict: dict[str, Any]) -> TermScore:
        score, cause = _number(verdict.get("score")), verdict.get("cause") or ""
        if score is None:
            share = None if self.excludes else 0.0
            return TermScore(name, None, share, cause or "no_verdict", str(verdict.get("explanation") or ""))
        return TermScore(name, score, self.weights[name] * score, "", str(verdict.get("explanation") or ""))

    def _reward(self, scores: list[TermScore]) -> Reward:
        shares = [term.share for term in scores]
        return Reward(None if None in shares else math.fsum(shares), scores)


def _number(value: Any) -> float | None:
    """A score as a number; what is none is no score."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def reward_figures(rule: RewardRule, rewards: Sequence[Reward], terms: Sequence[dict[str, Any]]) -> dict[str, float]:
    """An update's figures of its rewards. `terms` is what the scorer answered: seconds and tokens are per call."""
    totals = [reward.total for reward in rewards if reward.total is not None]
    found = {
        **_spread("reward", "reward_std", totals),
        "scored_zero": _share(abs(total) < NEARLY for total in totals),
        "scored_full": _share(total >= rule.full - NEARLY for total in totals),
        "excluded": _share(reward.is_excluded for reward in rewards),
    }
    for at, term in enumerate(terms):
        found |= _term_figures(term, [reward.terms[at] for reward in rewards])
    causes = Counter(term.cause for reward in rewards for term in reward.terms if term.cause)
    found |= {f"failures.{cause}": float(count) for cause, count in causes.items()}
    tokens = sum(int(term["tokens"] or 0) for term in terms)
    return found | ({"judge_tokens": float(tokens)} if tokens else {})


def _term_figures(term: dict[str, Any], scores: Sequence[TermScore]) -> dict[str, float]:
    name = f"term.{term['name']}"
    shares = [score.share for score in scores if score.share is not None]
    failures = sum(score.score is None for score in scores)
    seconds = float(term["seconds"]) / max(1, len(scores))
    return {**_spread(f"{name}.mean", f"{name}.std", shares), f"{name}.seconds": seconds,
            f"{name}.failures": float(failures)}  # fmt: skip


def _spread(mean: str, std: str, values: Sequence[float]) -> dict[str, float]:
    """A mean and a sample's standard deviation under two names, each where there are values enough for it."""
    found = {mean: statistics.fmean(values)} if values else {}
    return found | ({std: statistics.stdev(values)} if len(values) > 1 else {})


def _share(holds: Any) -> float:
    found = list(holds)
    return sum(found) / len(found) if found else 0.0
