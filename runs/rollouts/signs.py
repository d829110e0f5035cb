"""Signs that a rising reward does not come from better answers: two curves that go different ways. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from textwrap import shorten
from typing import Any

Curve = Sequence[tuple[int, float]]
LEAST_POINTS, PART, ERRORS = 10, 5, 2.0
REWARD, LENGTH = "reward", "completion_mean"
PAIRS, SHARED = "completions_distinct_pairs", "completions_shared"
HELD_OUT = "evaluation"


@dataclass(frozen=True)
class Trend:
    """A curve's mean over its first and over its last fifth, and the standard error of the difference."""

    first: float
    last: float
    error: float

    @property
    def change(self) -> float:
        """How far the curve went."""
        return self.last - self.first

    @property
    def is_certain(self) -> bool:
        """Whether the change is more than chance between updates."""
        return abs(self.change) > ERRORS * self.error

    def grew(self, share: float) -> bool:
        """Whether the curve certainly rose by that share of where it began."""
        return self.is_certain and self.change >= share * abs(self.first) > 0

    def fell(self, share: float) -> bool:
        """Whether the curve certainly fell by that share of where it began."""
        return self.is_certain and -self.change >= share * abs(self.first) > 0


@dataclass(frozen=True)
class HeldOut:
    """A score that is not the reward's own, of the model at one update: on which rows, by which grader; `spread` is
    half its interval's width."""

    step: int
    score: float
    spread: float
    evaluation: str
    dataset: str
    grader: str


@dataclass(frozen=True)
class Sign:
    """Two curves that part: which, how each went, and what it may mean."""

    name: str
    curves: tuple[str, str]
    words: str

    def document(self) -> dict[str, Any]:
        """The sign as programs read it."""
        return {"sign": self.name, "curves": list(self.curves), "words": self.words}


def trend_of(curve: Curve) -> Trend | None:
    """How a curve went; None where it has too few points to tell."""
    if len(curve) < LEAST_POINTS:
        return None
    part = max(3, len(curve) // PART)
    first, last = ([value for _, value in stretch] for stretch in (curve[:part], curve[-part:]))
    error = math.sqrt(variance(first) / part + variance(last) / part)
    return Trend(fmean(first), fmean(last), error)


def signs_of(curves: Mapping[str, Curve], terms: Mapping[str, Curve], held_out: Sequence[Sequence[HeldOut]]
             ) -> list[Sign]:
    """Every sign there is while the reward rises; none while it does not, or before there is enough to tell.

    Each of `held_out` is the scores on one dataset by one grader.
    """
    reward = trend_of(curves.get(REWARD, ()))
    if reward is None or not reward.is_certain or reward.change <= 0:
        return []
    rise = f"The reward rose from {reward.first:.3g} to {reward.last:.3g}"
    trends = {name: trend for name, curve in curves.items() if (trend := trend_of(curve)) is not None}
    return [sign for sign in (_shorter(rise, trends), _longer(rise, trends), _poorer(rise, trends),
                              _alike(rise, trends), *(_held_out(rise, scores) for scores in held_out),
                              *(_term(rise, name, trend_of(curve)) for name, curve in terms.items()))
            if sign is not None]


def _shorter(rise: str, trends: Mapping[str, Trend]) -> Sign | None:
    length = trends.get(LENGTH)
    if length is None or not length.fell(0.25):
        return None
    return Sign("shorter_completions", (REWARD, LENGTH),
                f"{rise} while completions shrank from {length.first:.0f} to {length.last:.0f} tokens. Read whether "
                "the best ones still answer, or only have the form that scores.")


def _longer(rise: str, trends: Mapping[str, Trend]) -> Sign | None:
    length = trends.get(LENGTH)
    if length is None or not length.grew(0.5):
        return None
    return Sign("longer_completions", (REWARD, LENGTH),
                f"{rise} while completions grew from {length.first:.0f} to {length.last:.0f} tokens. Read whether the "
                "additional text helps, or a grader merely likes length.")


def _poorer(rise: str, trends: Mapping[str, Trend]) -> Sign | None:
    pairs = trends.get(PAIRS)
    if pairs is None or not pairs.fell(0.25):
        return None
    return Sign("less_variety", (REWARD, PAIRS),
                f"{rise} while different pairs of words fell from {pairs.first:.0%} to {pairs.last:.0%} of all. The "
                "policy repeats itself more and more.")


def _alike(rise: str, trends: Mapping[str, Trend]) -> Sign | None:
    shared = trends.get(SHARED)
    if shared is None or not shared.is_certain or shared.change < 0.1:
        return None
    return Sign("one_answer_for_all", (REWARD, SHARED),
                f"{rise} while completions that several prompts got word for word went from {shared.first:.0%} to "
                f"{shared.last:.0%}. The policy may have found one answer that scores everywhere.")


def _held_out(rise: str, scores: Sequence[HeldOut]) -> Sign | None:
    """The best score so far against the newest one, where their intervals do not touch."""
    if len(scores) < 2:
        return None
    ordered = sorted(scores, key=lambda found: found.step)
    best, last = max(ordered[:-1], key=lambda found: found.score), ordered[-1]
    if best.score - last.score <= max(best.spread + last.spread, 0.01):
        return None
    return Sign("held_out_worse", (REWARD, HELD_OUT),
                f"{rise} while the score on {last.dataset} by {shorten(last.grader, 80, placeholder='…')} fell from "
                f"{best.score:.4f} at update {best.step} to {last.score:.4f} at update {last.step}. What the reward "
                "pays for is not what the evaluation asks.")


def _term(rise: str, name: str, trend: Trend | None) -> Sign | None:
    if trend is None or not trend.fell(0.1):
        return None
    return Sign("term_falls", (REWARD, f"term.{name}.mean"),
                f"{rise} while the share of the term {name} fell from {trend.first:.3g} to {trend.last:.3g}. The rest "
                "of the reward outweighs it.")
