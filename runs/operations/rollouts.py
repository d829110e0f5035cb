"""Keeps the scored completions of a reinforcement run's updates."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from django.db import transaction

from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import attempt_folder
from runs.models import Rollout, RolloutStep, Run
from runs.rollouts.distributions import PERCENTILES, distribution, percentile
from runs.rollouts.lines import LONGEST_NAME, RolloutLine, asked_of, read_rollouts
from runs.rollouts.variety import variety_of

UNREADABLE = "rollouts_unreadable"


def keep_rollouts(run: Run, attempt: Attempt, event: Mapping[str, Any]) -> dict[str, str] | None:
    """Store an update's completions in the place of what was kept of it; gives a warning where the file is unusable.

    The caller's transaction stores the event too, so that each update lands once. The file goes once that holds.
    """
    path = _file_of(attempt, event["file"])
    try:
        lines = read_rollouts(path)
    except (OSError, ValueError) as error:
        return _warning(event, str(error))
    if len(lines) != event["count"] or not lines:
        return _warning(event, f"it holds {len(lines)} of {event['count']} completions")
    _replace(run, attempt.number, event["step"], lines)
    transaction.on_commit(lambda: path.unlink(missing_ok=True))
    return None


def _file_of(attempt: Attempt, name: str) -> Path:
    """The file, which lies inside the attempt's folder whatever its name says."""
    folder = attempt_folder(attempt.pk).resolve()
    path = (folder / name).resolve()
    return path if path.is_relative_to(folder) else folder / "rollouts" / Path(name).name


def _warning(event: Mapping[str, Any], why: str) -> dict[str, str]:
    return {"code": UNREADABLE, "message": f"The completions of update {event['step']} could not be kept: {why}."}


def _replace(run: Run, attempt: int, step: int, lines: Sequence[RolloutLine]) -> None:
    Rollout.objects.filter(run=run, step=step).delete()
    Rollout.objects.bulk_create([_row(run, attempt, step, line) for line in lines])
    RolloutStep.objects.update_or_create(run=run, step=step, defaults={
        "attempt": attempt, "count": len(lines), "figures": figures_of(lines), "histograms": histograms_of(lines)})


def _row(run: Run, attempt: int, step: int, line: RolloutLine) -> Rollout:
    return Rollout(run=run, attempt=attempt, step=step, group=line.group, index=line.index, row=line.row,
                   prompt=line.prompt, tools=line.tools, asked=asked_of(line.prompt), completion=line.completion,
                   tokens=line.tokens, finish=line.finish[:LONGEST_NAME], score=line.score, advantage=line.advantage,
                   excluded=line.excluded, terms=msgspec.to_builtins(line.terms))


def figures_of(lines: Sequence[RolloutLine]) -> dict[str, float]:
    """What an update's completions come to, by name: percentiles of score and length, how alike they are."""
    variety = variety_of([(line.group, line.completion) for line in lines])
    scored = [line.score for line in lines if line.score is not None and not line.has_failed]
    found = {"completions_repeated": variety.repeated, "completions_shared": variety.shared,
             "completions_distinct_pairs": variety.distinct_pairs,
             "failed": sum(line.has_failed for line in lines) / len(lines),
             "scored_reward_mean": sum(scored) / len(scored) if scored else None}
    found |= _percentiles("reward", (line.score for line in lines if line.score is not None))
    found |= _percentiles("completion", (line.tokens for line in lines))
    return {name: value for name, value in found.items() if value is not None}


def _percentiles(name: str, values: Iterable[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"{name}_p{share}": percentile(ordered, share) for share in PERCENTILES} if ordered else {}


def histograms_of(lines: Sequence[RolloutLine]) -> dict[str, Any]:
    """How an update's scores, the shares of each term and the lengths are spread."""
    shares: dict[str, list[float]] = {}
    for line in lines:
        for term in line.terms:
            shares.setdefault(term.name, []).extend([] if term.share is None else [term.share])
    return {"total": distribution([line.score for line in lines if line.score is not None]),
            "length": distribution([float(line.tokens) for line in lines]),
            "terms": {name: distribution(values) for name, values in shares.items()}}
