"""What a reinforcement run's reward did: its terms from the first update on, failures, the judge, signs of hacking."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from optimize_site.kernel.scores import all_scores_of_models
from runs.models import RolloutStep, Run
from runs.rollouts import queries
from runs.rollouts.signs import Curve, HeldOut, signs_of

FAILURES = "failures."
RECENT = 10
"""How many of the newest updates a mean is taken over."""


def reward_document(run: Run, step: int | None = None) -> dict[str, Any]:
    """The whole of it, with how the figures of one update are spread. Raises NotFound."""
    queries.check_method(run)
    kept, curves = queries.get_step(run, step), queries.curves_of(run)
    return {
        "runId": run.pk, "reward": span(curves.get("reward", ())), "kl": span(curves.get("kl", ())),
        "length": span(curves.get("completion_mean", ())), "zeroVarianceGroups": span(
            curves.get("zero_variance_groups", ())),
        "terms": [_term(name, weight, curves) for name, weight in weights_of(run).items()],
        "failures": failures_of(curves), "judgeTokens": int(sum(value for _, value in curves.get("judge_tokens", ()))),
        "signs": [sign.document() for sign in signs_of(curves, _term_curves(run, curves), held_out_of(run))],
        "distributions": None if kept is None else distribution_document(kept, queries.terms_of(run)),
        "note": queries.note_of(run),
    }


def distribution_document(step: RolloutStep, terms: Sequence[str]) -> dict[str, Any]:
    """How the figures of one update's completions are spread, the terms in the reward's order."""
    found = step.histograms
    return {"step": step.step, "attempt": step.attempt, "count": step.count, "total": found["total"],
            "length": found["length"], "figures": step.figures,
            "terms": {name: found["terms"][name] for name in terms if name in found["terms"]}}


def weights_of(run: Run) -> dict[str, float | None]:
    """The names of the reward's terms with their weights, in their order."""
    named = [str(term["name"]) for term in run.references.get("reward") or ()]
    stated = [term.get("weight", 1) for term in (run.config.get("reward") or {}).get("terms") or ()]
    return dict(zip_longest(named, stated[:len(named)])) if named else dict.fromkeys(queries.terms_of(run))


def span(curve: Curve) -> dict[str, float] | None:
    """A curve's first value, its newest, and the mean over the newest updates; None without any."""
    if not curve:
        return None
    recent = [value for _, value in curve[-RECENT:]]
    return {"first": curve[0][1], "last": curve[-1][1], "recentMean": sum(recent) / len(recent), "step": curve[-1][0]}


def _term(name: str, weight: float | None, curves: Mapping[str, Curve]) -> dict[str, Any]:
    seconds = [value for _, value in curves.get(f"term.{name}.seconds", ())]
    return {"name": name, "weight": weight, "share": span(curves.get(f"term.{name}.mean", ())),
            "spread": span(curves.get(f"term.{name}.std", ())),
            "secondsARollout": sum(seconds) / len(seconds) if seconds else None,
            "failures": int(sum(value for _, value in curves.get(f"term.{name}.failures", ())))}


def failures_of(curves: Mapping[str, Curve]) -> dict[str, int]:
    """How many scores failed over the whole run, by cause, the commonest first."""
    counts = {name.removeprefix(FAILURES): int(sum(value for _, value in curve))
              for name, curve in curves.items() if name.startswith(FAILURES)}
    return dict(sorted(((cause, count) for cause, count in counts.items() if count), key=lambda pair: -pair[1]))


def _term_curves(run: Run, curves: Mapping[str, Curve]) -> dict[str, Curve]:
    return {name: curves.get(f"term.{name}.mean", ()) for name in weights_of(run)}


def held_out_of(run: Run) -> list[list[HeldOut]]:
    """The scores of the models made of the run, and of what it began from, by update: a list for each dataset, grader
    and text of instructions that they were evaluated under.

    What the reward itself asks, over the very rows that the run learns from, is not held out and left aside.
    """
    steps: defaultdict[str, list[int]] = defaultdict(list)
    for step, model in queries.models_of(run):
        steps[model].append(step)
    own = set(graders_of(run))
    found: defaultdict[tuple[str, ...], list[HeldOut]] = defaultdict(list)
    for score in all_scores_of_models(steps):
        asked = (score["grader"], score["graderInstructions"] or "")
        if score["meanScore"] is None or (asked in own and score["contentHash"] == run.config.get("dataset")):
            continue
        found[score["contentHash"], *asked] += [
            HeldOut(step, score["meanScore"], _spread(score), score["evaluationId"], score["dataset"],
                    score["gradedBy"]) for step in steps[score["modelId"]]]
    return [found[asked] for asked in sorted(found)]


def graders_of(run: Run) -> list[tuple[str, str]]:
    """What the terms of the run's reward would be called as graders of an evaluation, each with what it is told."""
    return [_as_grader(term) for term in (run.config.get("reward") or {}).get("terms") or ()]


def _as_grader(term: Mapping[str, Any]) -> tuple[str, str]:
    told = term.get("instructions") or ""
    kind = term.get("kind")
    if kind == "model":
        return f"model:{term['model']}", told
    if kind == "rule":
        return f"bundle:{term['bundle']}#{term['module']}:{term['function']}", ""
    return str(term.get("grader", "")), told


def _spread(score: Mapping[str, Any]) -> float:
    interval: Sequence[float] | None = score["interval"]
    return (interval[1] - interval[0]) / 2 if interval else 0.0
