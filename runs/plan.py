"""The bodies of the plans of jobs that train, from plain values. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


def supervised_body(*, base_model: Mapping[str, Any], dataset: Mapping[str, Any], validation: Mapping[str, Any] | None,
                    config: Mapping[str, Any], execution: Mapping[str, Any], resume: Mapping[str, Any] | None,
                    start: Mapping[str, Any] | None, total_steps: int | None, pause_at: int | None,
                    smoke: Mapping[str, Any] | None, is_first_attempt: bool, strict: bool) -> dict[str, Any]:
    """What the entry of the run's method, `sft` or `dpo`, is told: every setting resolved. `strict` computes the plain
    way, whatever it costs."""
    return {"entry": config["method"], "base_model": dict(base_model), "dataset": dict(dataset),
            "validation": dict(validation) if validation else None, "config": dict(config),
            "execution": dict(execution), "total_steps": total_steps, "start": dict(start) if start else None,
            "resume": dict(resume) if resume else None,
            "pause_at": pause_at,
            "smoke": {"rows": smoke["sliceSize"], "threshold": smoke["threshold"]} if smoke else None,
            "first_attempt": is_first_attempt, "strict": strict}


def reinforcement_body(*, base_model: Mapping[str, Any], dataset: Mapping[str, Any], config: Mapping[str, Any],
                       execution: Mapping[str, Any], scorer: Mapping[str, Any], failed_updates: int,
                       sampler: Mapping[str, Any], warm_start: Mapping[str, Any] | None,
                       resume: Mapping[str, Any] | None, start: Mapping[str, Any] | None, total_steps: int | None,
                       pause_at: int | None, is_first_attempt: bool, strict: bool) -> dict[str, Any]:
    """What the entry of the run's method, `grpo` or `gspo`, is told."""
    return {"entry": config["method"], "base_model": dict(base_model), "dataset": dict(dataset),
            "config": dict(config), "execution": dict(execution), "scorer": dict(scorer),
            "failed_updates": failed_updates, "sampler": dict(sampler),
            "warm_start": dict(warm_start) if warm_start else None,
            "total_steps": total_steps, "start": dict(start) if start else None,
            "resume": dict(resume) if resume else None, "pause_at": pause_at,
            "first_attempt": is_first_attempt, "strict": strict}


def scorer_spec(reward: Mapping[str, Any], scored_by: Sequence[Mapping[str, Any]], *, on_failure: str,
                limits: Mapping[str, Any], scratch: str) -> dict[str, Any]:
    """What the process that scores completions reads first: each resolved term under its name, with what scores it,
    as `scored_by` says it term by term: `{name}` and one of `bundle`, `judge`, or neither for a grader's own text."""
    return {"terms": [_spec_term(term, found) for term, found in zip(reward["terms"], scored_by, strict=True)],
            "onFailure": on_failure, "limits": dict(limits), "scratch": scratch}


def _spec_term(term: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    means = {key: found[key] for key in ("bundle", "judge") if found.get(key)} or {"grader": term["grader"]}
    return {"name": found["name"], "weight": term["weight"], "kind": term["kind"]} | means
