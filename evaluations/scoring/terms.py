"""What a scorer is, and what one term of a score said of some answers."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from evaluations.graders import Verdict
from evaluations.graders.verdict import unscored

MAX_EXPLANATION, MAX_NAME, MAX_FIELDS = 2000, 200, 200


@dataclass(frozen=True)
class Item:
    """One answer: the prompt it was given to, what it says, what was expected, and the row's other columns."""

    row: int
    prompt: Sequence[Mapping[str, Any]]
    completion: str
    expected: str = ""
    tools: Sequence[Mapping[str, Any]] | None = None
    calls: Sequence[Mapping[str, Any]] | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


class NotReady(Exception):
    """Nothing can be scored: a stable code, a sentence, and what to do."""

    def __init__(self, code: str, reason: str, hint: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.hint = code, reason, hint


class Scorer(Protocol):
    """Scores answers. Made by a maker, which raises NotReady where it cannot work at all."""

    def score(self, items: Sequence[Item]) -> Sequence[Verdict]:
        """One verdict an item, in their order. One that cannot be scored says so in its own verdict."""

    def close(self) -> None:
        """Let go of what it holds: processes, connections. Called once."""


@runtime_checkable
class CountsTokens(Protocol):
    """A scorer that asks a model, and has counted its tokens since it was made."""

    tokens: int


@dataclass(frozen=True)
class Term:
    """A scorer under its name. `waits` is true of one that mostly waits for something else: it runs beside others."""

    name: str
    scorer: Scorer
    waits: bool = False


@dataclass(frozen=True)
class Scored:
    """What one term said of some items, how long it took for all of them, and the tokens it spent."""

    name: str
    seconds: float
    tokens: int
    verdicts: Sequence[Verdict]


def score_term(term: Term, items: Sequence[Item]) -> Scored:
    """The term's verdicts on the items; whatever goes wrong is a verdict without a score, never an exception."""
    started, before = time.monotonic(), _tokens(term.scorer)
    try:
        found = list(term.scorer.score(items))
        verdicts = [_sound(verdict) for verdict in found] if len(found) == len(items) else \
            [unscored("invalid_result", f"{len(found)} verdicts came back for {len(items)} answers.")] * len(items)
    except Exception as error:
        verdicts = [unscored("error", f"{type(error).__name__}: {error}"[:MAX_EXPLANATION])] * len(items)
    return Scored(term.name, time.monotonic() - started, _tokens(term.scorer) - before, verdicts)


def _tokens(scorer: Scorer) -> int:
    return scorer.tokens if isinstance(scorer, CountsTokens) else 0


def _sound(verdict: Verdict) -> Verdict:
    """A verdict whose score is a number, and whose texts are texts that have an end."""
    if verdict.score is not None and not math.isfinite(verdict.score):
        return unscored("invalid_result", f"The score is {verdict.score}.")
    fields = {_plain(str(name), MAX_NAME): bool(value) for name, value in list(verdict.fields.items())[:MAX_FIELDS]}
    return Verdict(verdict.score, verdict.is_exact, fields, _plain(verdict.explanation, MAX_EXPLANATION), verdict.cause)


def _plain(text: str, longest: int) -> str:
    """The text without what no database and no page takes: half characters and NUL."""
    clean = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return clean if len(clean) <= longest else clean[:longest - 1] + "…"
