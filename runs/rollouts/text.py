"""Rollouts and rewards as people read them at a terminal."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optimize_site.kernel.errors import InvalidInput
from runs.rollouts.distributions import edges_of, laid_over
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


PERCENTILE_COLUMNS = ("P5", "P25", "P50", "P75", "P95")
HISTOGRAM_NUMBERS = ("STEP", "LEAST", *PERCENTILE_COLUMNS, "MOST", "MEAN")
BARS = "▁▂▃▄▅▆▇█"
"""An eighth of the fullest bin, two eighths and so on; an empty bin is a dot."""
Spread = tuple[int, Mapping[str, Any]]


def spreads_of(steps: Iterable[Mapping[str, Any]], *, term: str, length: bool) -> list[Spread]:
    """Of each update the spread of the reward, of a term's share or of the length; those without one are left out.

    Raises InvalidInput for a term that no update has.
    """
    steps = list(steps)
    known = list(dict.fromkeys(name for step in steps for name in step["terms"]))
    if term and steps and term not in known:
        raise InvalidInput(f"The reward of this run has no term {term!r}.", code="unknown_term",
                           hint=f"Its terms are {', '.join(known)}.")
    named = [(step["step"], step["terms"].get(term) if term else step["length" if length else "total"])
             for step in steps]
    return [(step, spread) for step, spread in named if spread is not None]


def shared_edges(spreads: Sequence[Spread]) -> list[float]:
    """The edges under which every update's histogram fits, so that they can be read one below the other."""
    return edges_of(min(spread["least"] for _, spread in spreads), max(spread["most"] for _, spread in spreads))


def histogram_columns(edges: Sequence[float]) -> list[str]:
    """The columns of a table of updates; the last but one draws each histogram between its two outer edges."""
    return [*HISTOGRAM_NUMBERS, f"FROM {edges[0]:g} TO {edges[-1]:g}", "TWO GROUPS"]


def histogram_rows(spreads: Sequence[Spread], edges: Sequence[float], most: int) -> list[list[Any]]:
    """The updates of the table, at most so many."""
    return [[step, *(_figure(spread[column.lower()]) for column in HISTOGRAM_NUMBERS[1:]),
             bars_of(laid_over(spread, edges)), groups_words(spread["twoGroups"])]
            for step, spread in evenly(spreads, most)]


def evenly(spreads: Sequence[Spread], most: int) -> list[Spread]:
    """At most so many of them, the first and the last among them; only the last where it is one."""
    if most < 2 or len(spreads) <= most:
        return list(spreads if len(spreads) <= most else spreads[-1:])
    places = {round(place * (len(spreads) - 1) / (most - 1)) for place in range(most)}
    return [spreads[place] for place in sorted(places)]


def bars_of(counts: Sequence[int]) -> str:
    """A histogram in one line of characters, as high as its fullest bin allows."""
    tallest = max(counts)
    return "".join(BARS[math.ceil(count / tallest * len(BARS)) - 1] if count else "·" for count in counts)


def groups_words(groups: Mapping[str, float] | None) -> str | None:
    """`62% near 0.1, 38% near 0.9`: that the values fall in two."""
    if groups is None:
        return None
    return (f"{groups['lowShare']:.0%} near {_figure(groups['low'])}, {1 - groups['lowShare']:.0%} near "
            f"{_figure(groups['high'])}")
