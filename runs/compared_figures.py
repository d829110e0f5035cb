"""Which figure runs are listed and compared by: what each method reports, under its name in the interface. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimize_site.kernel.errors import InvalidInput
from runs.errors import RunsNotComparable
from runs.loss_windows import is_number
from runs.models import Run


@dataclass(frozen=True)
class Figure:
    """A figure of every update: its name in the interface and where it is stored; `better` is 1 where higher is better,
    -1 where lower is, 0 where neither says anything."""

    name: str
    stored: str
    title: str
    term: str
    better: int


LOSSES = (Figure("loss", "loss", "Loss", "loss", -1),
          Figure("validationLoss", "validation_loss", "Validation loss", "validation loss", -1))
PAIRS = (Figure("preferenceAccuracy", "preference_accuracy", "Preference accuracy", "preference accuracy", 1),
         Figure("rewardMargin", "reward_margin", "Reward margin", "reward margin", 1))
REWARDS = (Figure("reward", "reward", "Reward", "reward", 1),
           Figure("kl", "kl", "KL from the reference", "KL penalty", 0))
NORM = "grad_norm"
NAMED = {figure.name: figure for figure in (*LOSSES, *PAIRS, *REWARDS)}
"""Every figure by its name in the interface."""


@dataclass(frozen=True)
class Kind:
    """Runs that may stand on one chart: the methods, what they report in words, and their figures, the main one first.
    """

    methods: frozenset[str]
    words: str
    figures: tuple[Figure, ...]


KINDS = (Kind(frozenset({"sft"}), "the loss of rows", LOSSES),
         Kind(frozenset({"dpo"}), "the loss of pairs", (*LOSSES, *PAIRS)),
         Kind(frozenset({"grpo", "gspo"}), "the reward of completions", REWARDS))


def kind_of(runs: Sequence[Run]) -> Kind:
    """What the runs have in common. Raises RunsNotComparable where their figures mean different things."""
    kinds = [_kind(run.method) for run in runs]
    apart = next((number for number, kind in enumerate(kinds) if kind != kinds[0]), None)
    if apart is not None:
        raise RunsNotComparable(
            f"The run {runs[0].pk[:12]} trains by {runs[0].method} and reports {kinds[0].words}; {runs[apart].pk[:12]} "
            f"trains by {runs[apart].method} and reports {kinds[apart].words}. They have no chart in common.",
            hint="`./optimize comparisons create` compares scores, whatever trained.")
    return kinds[0]


def _kind(method: str) -> Kind:
    return next(kind for kind in KINDS if method in kind.methods)


def newest_figures(updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a run's summary keeps of the figures of its newest updates. An update without a reward, since none of its
    completions was scored, leaves the one before."""
    rewards = [values["reward"] for values in updates if values.get("reward") is not None]
    return {"lastLoss": updates[-1].get("loss")} | ({"lastReward": rewards[-1]} if rewards else {})


def last_figure(run: Run) -> dict[str, Any] | None:
    """The newest value of what a run is listed by, `{"name", "value"}`: its loss, or its reward where it learns from
    one. None before an update reported it."""
    name = _kind(run.method).figures[0].name
    value = run.summary.get({"loss": "lastLoss", "reward": "lastReward"}[name])
    return {"name": name, "value": value} if is_number(value) else None


def figure_of(kind: Kind, name: str) -> Figure:
    """The figure of that name, or the main one where none is named. Raises InvalidInput where the runs report none."""
    found = {figure.name: figure for figure in kind.figures}
    if name and name not in found:
        raise InvalidInput(f"figure is {name!r}; these runs report {kind.words} and are compared by "
                           f"{' or '.join(found)}.", code="figure_unknown")
    return found[name] if name else kind.figures[0]
