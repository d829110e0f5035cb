"""Whether vLLM can sample a run's completions where the box asks for it, told before any device is claimed."""

from optimize_site.kernel.errors import Problem
from registry.base_model_queries import base_model_state
from runs.descriptor import REINFORCEMENT
from runs.evidence import predicted_memory
from runs.facts import Facts
from runs.models import Run
from runs.reinforcement_plan import sampler_of
from runs.resolve import Resolved
from runs.rollout_engine import chosen_sampler, rollout_box
from runs.samplers import MEMORY_UNKNOWN, SamplerChoice
from runs.shapes import shape_at


def sampler_problems(resolved: Resolved, facts: Facts) -> list[Problem]:
    """What refuses a run that the box wants vLLM to sample for, and that it cannot; its own choice refuses none.

    How much memory is left for vLLM is told once the base model is prepared: `prepared_sampler_problem` asks then.
    """
    if resolved.method not in REINFORCEMENT or rollout_box().mode == "auto" or facts.base_model is None:
        return []
    state = base_model_state(facts.base_model.entry.repository)
    parts = predicted_memory(resolved, facts)["parts"]
    choice = chosen_sampler(resolved.config, resolved.execution, parts, shape_at(state) if state else None)
    is_told_later = choice.code == MEMORY_UNKNOWN and (state is None or not state.is_ready)
    return [] if is_told_later or not choice.code else [_problem(choice)]


def prepared_sampler_problem(run: Run) -> Problem | None:
    """What keeps vLLM from sampling for an admitted run where the box wants it alone, once its base model is prepared:
    how much memory that takes could not be told before."""
    if run.method not in REINFORCEMENT or rollout_box().mode != "vllm":
        return None
    choice = sampler_of(run)
    return _problem(choice) if choice.kind == "own" else None


def _problem(choice: SamplerChoice) -> Problem:
    return Problem("config.method", choice.code, choice.reason, choice.hint)
