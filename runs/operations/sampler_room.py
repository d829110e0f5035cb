"""Whether vLLM can sample a run's completions where the box asks for it, told before any device is claimed."""

from optimize_site.kernel.errors import Problem
from registry.base_model_queries import base_model_state
from runs.descriptor import REINFORCEMENT
from runs.evidence import predicted_memory
from runs.facts import Facts
from runs.resolve import Resolved
from runs.rollout_engine import chosen_sampler, rollout_box
from runs.shapes import shape_at


def sampler_problems(resolved: Resolved, facts: Facts) -> list[Problem]:
    """What refuses a run that the box wants vLLM to sample for, and that it cannot; its own choice refuses none."""
    if resolved.method not in REINFORCEMENT or rollout_box().mode == "auto" or facts.base_model is None:
        return []
    state = base_model_state(facts.base_model.entry.repository)
    parts = predicted_memory(resolved, facts)["parts"]
    choice = chosen_sampler(resolved.config, resolved.execution, parts, shape_at(state) if state else None)
    return [Problem("config.method", choice.code, choice.reason, choice.hint)] if choice.code else []
