"""The arithmetic of a reinforcement run and what refuses one: groups, steps, room for completions. Pure.

A step is one update: `promptsPerStep` prompts are rolled out `groupSize` times each, scored, and learned from once.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from optimize_site.kernel.errors import Problem
from runs.descriptor import REINFORCEMENT, Config, RunDescriptor, method_of
from runs.facts import Facts, WarmStartFacts

R = "config.rlHyperparams"
LEAST_GROUP = 2


def reinforcement_steps(config: Mapping[str, Any], prompts: int) -> int:
    """How many updates a run over so many prompts makes: as many as it states, else by its epochs."""
    rl = config["rlHyperparams"]
    return int(rl["maxSteps"] or steps_an_epoch(config, prompts) * rl["epochs"])


def steps_an_epoch(config: Mapping[str, Any], prompts: int) -> int:
    """Updates of one pass over the prompts; the last one takes what is left."""
    return -(-prompts // int(config["rlHyperparams"]["promptsPerStep"]))


def completions_a_step(config: Mapping[str, Any]) -> int:
    """Completions sampled for one update."""
    rl = config["rlHyperparams"]
    return int(rl["promptsPerStep"] * rl["groupSize"])


def sequences_a_pass(config: Mapping[str, Any], execution: Mapping[str, Any]) -> int:
    """The most completions that go through the model at once on a device; never more than a group."""
    group = int(config["rlHyperparams"]["groupSize"])
    return min(group, int(execution.get("microBatchSequences") or group))


def arithmetic_words(config: Mapping[str, Any], prompts: int) -> str:
    """`8 prompts × 4 completions = 32 completions a step, which is one update; 100 prompts are 13 steps an epoch`."""
    rl = config["rlHyperparams"]
    return (f"{rl['promptsPerStep']} prompts × {rl['groupSize']} completions = {completions_a_step(config)} "
            f"completions a step, which is one update; {prompts:,} prompts are {steps_an_epoch(config, prompts):,} "
            "steps an epoch")


def rollout_words(config: Mapping[str, Any]) -> str | None:
    """How completions are sampled and held to the reference; None for a run that samples none."""
    rl = config.get("rlHyperparams")
    if rl is None:
        return None
    return f"klBeta {rl['klBeta']:g}, temperature {rl['temperature']:g}{' (greedy)' if not rl['temperature'] else ''}"


# Checks --------------------------------------------------------------------------------------------------------------


def check_reinforcement(stated: Config, config: Mapping[str, Any], execution: Mapping[str, Any]) -> Iterator[Problem]:
    """Settings of layouts that do not exist, and groups and lengths that cannot be rolled out."""
    if execution["rolloutGpus"] > 0:
        yield Problem("execution.rolloutGpus", "rollout_gpus_not_supported", f"execution.rolloutGpus is "
                      f"{execution['rolloutGpus']}; rollouts are generated on the training devices.",
                      "Leave it out, and count every device in execution.gpus.")
    staleness = stated.rl_hyperparams and stated.rl_hyperparams.staleness_threshold
    if staleness:
        yield Problem(f"{R}.stalenessThreshold", "staleness_not_supported", f"stalenessThreshold is "
                      f"{staleness}; every step trains on rollouts of the current weights.", "Leave it out.")
    rl = config.get("rlHyperparams")
    if rl is None:
        return
    if rl["groupSize"] < LEAST_GROUP:
        yield Problem(f"{R}.groupSize", "group_too_small", f"groupSize is {rl['groupSize']}; completions are judged "
                      "against the others of their group, and one has no others.", f"State at least {LEAST_GROUP}.")
    if rl["maxCompletionLength"] >= config["maxSeqLength"]:
        yield Problem(f"{R}.maxCompletionLength", "no_room_for_prompts", f"maxCompletionLength is "
                      f"{rl['maxCompletionLength']} and maxSeqLength {config['maxSeqLength']}; no prompt fits before "
                      "its completion.", "Raise config.maxSeqLength, or lower maxCompletionLength.")


def check_warm_start(descriptor: RunDescriptor, config: Mapping[str, Any], execution: Mapping[str, Any],
                     facts: Facts) -> Iterator[Problem]:
    """An adapter is trained further over the base model that it was made over, in the shape that it has."""
    start = facts.warm_start
    if start is None or method_of(descriptor) not in REINFORCEMENT:
        return
    base = facts.base_model
    if base is not None and start.base_model != base.entry.repository:
        yield Problem("warmStartModelId", "other_base_model", f"{start.reference} is an adapter over "
                      f"{start.base_model}, and the run is over {base.entry.repository}.",
                      f"Name a model over {base.entry.repository}, or set baseModel to {start.base_model}.")
    elif base is not None and start.base_revision and base.revision and start.base_revision != base.revision:
        yield Problem("warmStartModelId", "other_base_revision", f"{start.reference} was trained over "
                      f"{start.base_model} at {start.base_revision[:12]}, and this box holds it at "
                      f"{base.revision[:12]}.", "Pin that revision in the catalog, or train the adapter again.")
    yield from _check_shape(descriptor, start)
    if execution["gpus"] > 1 and config["rlHyperparams"]["klBeta"] > 0:
        yield Problem(f"{R}.klBeta", "kl_over_several_devices", f"klBeta is {config['rlHyperparams']['klBeta']:g} on "
                      f"{execution['gpus']} devices, and the run starts from {start.reference}; a KL penalty toward an "
                      "inherited adapter is computed on one device only.",
                      "Set klBeta to 0, or train without inheriting a policy")


def _check_shape(descriptor: RunDescriptor, start: WarmStartFacts) -> Iterator[Problem]:
    rl = descriptor.config and descriptor.config.rl_hyperparams
    lora = rl.lora if rl else None
    for name, value in (lora.model_dump(by_alias=True, exclude_none=True) if lora else {}).items():
        if value and name in start.lora and value != start.lora[name]:
            yield Problem(f"lora.{name}", "adapter_keeps_its_shape", f"lora.{name} is {value}; {start.reference} was "
                          f"made with {start.lora[name]}, and an adapter that is trained further keeps its shape.",
                          "Leave it out.")


def warn_of_reinforcement(config: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Greedy sampling gives a group the same completion over and over."""
    rl = config["rlHyperparams"]
    if rl["temperature"] == 0:
        yield {"code": "greedy_groups", "message": f"temperature is 0: the {rl['groupSize']} completions of a group "
               "are sampled greedily and are all the same, so none scores above its group's mean and nothing is "
               "learned. "
               "State a temperature above 0."}
