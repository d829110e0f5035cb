"""The body of a supervised job's plan, from plain values. Pure."""

from collections.abc import Mapping
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
