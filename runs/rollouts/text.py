"""Rollouts and rewards as people read them at a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runs.rollouts.lines import asked_of

CUT = 60
Row = tuple[str, Any]


def rollout_columns(terms: Sequence[str], *, with_steps: bool) -> list[str]:
    """The columns of a table of rollouts: one for each term of the reward."""
    return [*(["STEP"] if with_steps else []), "ROW", "SCORE", *terms, "TOKENS", "ENDED", "PROMPT", "COMPLETION"]


def rollout_rows(rollouts: Iterable[Mapping[str, Any]], terms: Sequence[str], *, with_steps: bool) -> list[list[Any]]:
    """Rollouts as table rows: of a prompt its last message, both texts cut; a failed term by its cause."""
    return [[*([row["step"]] if with_steps else []), row["row"], _figure(row["score"]),
             *(_share(row["terms"], name) for name in terms), row["tokens"], row["finish"],
             _cut(asked_of(row["prompt"])), _cut(row["completion"])] for row in rollouts]


def _share(terms: Iterable[Mapping[str, Any]], name: str) -> str | None:
    found = next((term for term in terms if term["name"] == name), None)
    return None if found is None else found["cause"] or _figure(found["share"])


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CUT else f"{line[:CUT - 1]}…"


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"


def step_words(found: Mapping[str, Any]) -> str:
    """Which of how many are shown, and which updates are kept."""
    shown, steps = len(found["rollouts"]), found["steps"]
    if not steps:
        return str(found["note"])
    place = f"update {found['step']}" if found["step"] is not None else "all updates"
    kept = f"update {steps[0]}" if len(steps) == 1 else f"{len(steps)} updates, {steps[0]} to {steps[-1]}"
    slowly = f" {found['searchNote']}" if found["searchNote"] else ""
    return f"{shown} of {found['total']} rollouts of {place}. Kept: {kept}.{slowly}"


TERM_COLUMNS = ("TERM", "WEIGHT", "SHARE FIRST", "SHARE NOW", "SPREAD", "SECONDS", "FAILED")


def term_rows(terms: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """The terms of a reward as table rows; the share now is the mean over the newest updates."""
    return [[term["name"], _figure(term["weight"]), *(_span(term["share"], part) for part in ("first", "recentMean")),
             _span(term["spread"], "recentMean"), _figure(term["secondsARollout"]), term["failures"]]
            for term in terms]


def _span(span: Mapping[str, float] | None, part: str) -> str | None:
    return _figure(span[part]) if span else None


def reward_rows(found: Mapping[str, Any]) -> list[Row]:
    """The reward, what it failed at, and what is suspicious about it."""
    failures = ", ".join(f"{count} {cause}" for cause, count in found["failures"].items())
    return [("Reward", _went(found["reward"])), ("No spread", _went(found["zeroVarianceGroups"])),
            ("KL", _went(found["kl"])), ("Completion", _went(found["length"], " tokens")),
            ("Failed scores", failures or "none"), ("Judge tokens", found["judgeTokens"] or None),
            *(("Sign of hacking", f"{sign['words']} ({' against '.join(sign['curves'])})") for sign in found["signs"])]


def _went(span: Mapping[str, float] | None, unit: str = "") -> str | None:
    if span is None:
        return None
    return f"{_figure(span['recentMean'])}{unit} now, {_figure(span['first'])} at first"


SPREAD_COLUMNS = ("FIGURE", "LEAST", "P5", "P25", "P50", "P75", "P95", "MOST", "TWO GROUPS")


def spread_rows(found: Mapping[str, Any] | None) -> list[list[Any]]:
    """How the figures of one update are spread, as table rows."""
    if found is None:
        return []
    named = {"reward": found["total"], **found["terms"], "tokens": found["length"]}
    return [[name, *(_figure(spread[key]) for key in ("least", "p5", "p25", "p50", "p75", "p95", "most")),
             groups_words(spread["twoGroups"])] for name, spread in named.items() if spread is not None]


def groups_words(groups: Mapping[str, float] | None) -> str | None:
    """`62% near 0.1, 38% near 0.9`: that the values fall in two."""
    if groups is None:
        return None
    return (f"{groups['lowShare']:.0%} near {_figure(groups['low'])}, {1 - groups['lowShare']:.0%} near "
            f"{_figure(groups['high'])}")
