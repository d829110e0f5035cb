"""What a branch changes: a document of configuration fields laid over its parent's, checked field by field. Pure."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from optimize_site.kernel.errors import Problem

BESIDE_CONFIG = ("execution", "grader")
"""Groups of the descriptor that stand beside `config` and may be overridden too."""
BUDGET = ("hyperparams.training.epochs", "hyperparams.training.maxSteps", "rlHyperparams.epochs",
          "rlHyperparams.maxSteps")
KEEPS_STATE = ("hyperparams.optimizer.learningRate", "rlHyperparams.optimizer.learningRate",
               "hyperparams.training.validationFrequencySteps")
"""The fields that a branch may change and still keep its source's training state."""


def paths_of(overrides: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every field an override document states, as the descriptor writes it below `config`."""
    for key, value in overrides.items():
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value:
            yield from paths_of(value, where)
        else:
            yield where


def stated_paths(overrides: Mapping[str, Any]) -> tuple[str, ...]:
    """The same fields as paths from the descriptor's top."""
    return tuple(sorted(path if path.partition(".")[0] in BESIDE_CONFIG else f"config.{path}"
                        for path in paths_of(overrides)))


def budget_problems(overrides: Mapping[str, Any]) -> list[Problem]:
    """A branch's budget is stated beside its overrides, and nowhere else."""
    return [Problem(f"overrides.{path}", "budget_is_steps", f"{path} cannot be overridden; a branch's budget is its "
                    "own.", "Leave it out, and state steps, or epochs with maxSteps, beside the overrides.")
            for path in paths_of(overrides) if path in BUDGET]


def shape_problems(overrides: Mapping[str, Any], *, parent: Mapping[str, Any]) -> list[Problem]:
    """The adapter keeps the shape of its snapshot."""
    lora = (parent.get("hyperparams") or parent.get("rlHyperparams") or {}).get("lora", {})
    found = []
    for group in ("hyperparams", "rlHyperparams"):
        stated = (overrides.get(group) or {}).get("lora") or {}
        found += [Problem(f"overrides.{group}.lora.{name}", "adapter_keeps_its_shape",
                          f"{group}.lora.{name} is {value}; the snapshot's adapter was made with {lora.get(name)}.",
                          "Leave it out, or start a new run.")
                  for name, value in stated.items() if name in lora and value != lora[name]]
    return found


def outside_state(overrides: Mapping[str, Any]) -> list[str]:
    """The overridden fields that a training state cannot go on under."""
    return [path for path in paths_of(overrides) if path not in KEEPS_STATE]


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`: groups are merged, everything else is replaced."""
    merged = deepcopy(dict(below))
    for key, value in above.items():
        known = merged.get(key)
        is_group = isinstance(value, Mapping) and isinstance(known, Mapping)
        merged[key] = laid_over(known, value) if is_group else deepcopy(value)  # type: ignore[arg-type]
    return merged


def without_nothing(node: Any) -> Any:
    """A resolved group as a descriptor writes it: what is None there was left out."""
    if isinstance(node, Mapping):
        return {key: without_nothing(value) for key, value in node.items() if value is not None}
    return deepcopy(node)
