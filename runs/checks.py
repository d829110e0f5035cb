"""What a readable descriptor is refused or warned for. Pure; each check names the field it is about."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from optimize_site.kernel.errors import OperationError, Problem
from optimize_site.kernel.graders import available_grader
from runs.box_checks import (
    LATER,
    Warnings,
    check_devices,
    check_engine,
    check_engine_settings,
    check_envelope,
    check_memory,
    device_kind,
)
from runs.data_checks import check_run_data, warn_of_data
from runs.descriptor import REINFORCEMENT, Config, Data, Loss, RunDescriptor, method_of
from runs.facts import Facts
from runs.reinforcement import check_reinforcement, check_warm_start, warn_of_reinforcement
from runs.reward import check_reward, warn_of_reward
from runs.smoke import check_smoke


def check_all(descriptor: RunDescriptor, facts: Facts, config: Mapping[str, Any],
              execution: Mapping[str, Any]) -> tuple[list[Problem], Warnings]:
    """Every problem of a readable descriptor, in the order of the document, and the warnings."""
    stated = descriptor.config or Config()
    method = method_of(descriptor)
    problems = [
        *check_required(descriptor), *check_workload(descriptor, facts), *check_base_model(facts),
        *check_method(descriptor, facts), *check_groups(stated, method), *check_run_data(descriptor, config, facts),
        *check_adapter(config, facts), *check_schedule(config, method), *check_passes(config, execution),
        *check_length(config, facts), *check_reinforcement(stated, config, execution),
        *check_warm_start(descriptor, config, execution, facts),
        *(check_reward(descriptor) if method in REINFORCEMENT else ()),
        *check_model(config, execution, facts), *check_engine(descriptor, execution, facts),
        *check_engine_settings(stated, method, facts), *check_devices(execution, facts),
        *check_memory(descriptor, facts), *check_smoke(descriptor, facts), *check_grader(descriptor, facts),
    ]
    unmeasured, warnings = check_envelope(config, execution, facts, method)
    return problems + unmeasured, warnings + _warn(config, execution, facts) + warn_of_data(config, facts)


def check_required(descriptor: RunDescriptor) -> Iterator[Problem]:
    """The fields without which there is nothing to run."""
    if descriptor.kind is None:
        yield Problem("kind", "required", "kind is missing.", "Write `kind: run`.")
    if descriptor.workload is None and descriptor.project is None:
        yield Problem("workload", "required", "workload is missing.",
                      "Name one; `./optimize workloads list` shows them.")
    if descriptor.workload and descriptor.project and descriptor.workload != descriptor.project:
        yield Problem("project", "contradiction", f"workload is {descriptor.workload!r} and project is "
                      f"{descriptor.project!r}; they are two words for one thing.", "Leave one of them out.")
    if descriptor.config is None:
        yield Problem("config", "required", "config is missing.", "It needs at least `dataset`.")
    if descriptor.config is None or descriptor.config.dataset is None:
        yield Problem("config.dataset", "required", "dataset is missing.",
                      "Name one; `./optimize datasets list` shows them.")


def check_workload(descriptor: RunDescriptor, facts: Facts) -> Iterator[Problem]:
    """No new work for what was archived."""
    workload, path = facts.workload, "project" if descriptor.workload is None else "workload"
    if workload is not None and workload.is_archived:
        yield Problem(path, "workload_archived", f"The workload {workload.name} is archived and takes no new work.",
                      f"Bring it back with `./optimize workloads unarchive {workload.name}`.")
    if workload is not None and workload.is_namespace_archived:
        yield Problem(path, "namespace_archived", f"The run would register its model in the namespace "
                      f"{workload.namespace}, which is archived.",
                      f"Bring it back with `./optimize registry namespaces unarchive {workload.namespace}`.")


def check_base_model(facts: Facts) -> Iterator[Problem]:
    """A run trains an allowed model that somebody selected and that is not for serving only."""
    base = facts.base_model
    if base is None:
        return
    name = base.entry.repository
    if base.entry.serving_only:
        reason = base.entry.serving_only_reason or "the operator allows it for serving only"
        yield Problem("baseModel", "serving_only", f"{name} is allowed for serving only: {reason}.",
                      "Serve or evaluate it, and train another base model.")
    elif base.failure:
        yield Problem("baseModel", "base_model_unusable", f"{name} could not be prepared: {base.failure}",
                      f"See `./optimize base-models get {name}`, then select it again.")
    elif not base.is_selected:
        yield Problem("baseModel", "base_model_not_selected", f"{name} is allowed, and nobody has selected it.",
                      f"Select it with `./optimize base-models select {name}`.")


def check_method(descriptor: RunDescriptor, facts: Facts) -> Iterator[Problem]:
    """Only methods that an engine runs here, with the model that was named."""
    method = method_of(descriptor)
    running = {name for engine in facts.catalog.engines.values() for name in engine.methods}
    if method not in running:
        yield Problem("config.method", "method_not_available", f"The method {method} cannot run in this version; "
                      f"{' and '.join(sorted(running))} can.", LATER)
    elif facts.base_model and not facts.base_model.entry.serving_only \
            and not facts.base_model.entry.trains_with(method):
        listed = sorted({name for names in facts.base_model.entry.engines.values() for name in names})
        yield Problem("config.method", "method_not_listed", f"{facts.base_model.entry.repository} is not listed for "
                      f"{method}; the catalog lists {', '.join(listed) or 'no method'}.",
                      "Choose one of these, or another base model: `./optimize base-models list`.")
    if descriptor.warm_start_model_id and method not in REINFORCEMENT:
        yield Problem("warmStartModelId", "does_not_apply", f"warmStartModelId is for grpo and gspo; the method is "
                      f"{method}.", "Leave it out.")
    if descriptor.config and descriptor.config.warm_start_config_hash:
        yield Problem("config.warmStartConfigHash", "set_by_the_box", "warmStartConfigHash is set by the box from "
                      "warmStartModelId.", "Leave it out.")


def check_groups(stated: Config, method: str) -> Iterator[Problem]:
    """Groups of another method are refused; `data` and `loss` with nothing but their defaults ask for nothing."""
    supervised = method not in REINFORCEMENT
    wrong = {
        "hyperparams": not supervised and stated.hyperparams is not None,
        "rlHyperparams": supervised and stated.rl_hyperparams is not None,
        "reward": supervised and stated.reward is not None,
        "preference": method != "dpo" and stated.preference is not None,
        "data": not supervised and _asks(stated.data, DATA_DEFAULTS),
        "loss": method != "sft" and _asks(stated.loss, LOSS_DEFAULTS),
    }
    instead = {"hyperparams": "Use rlHyperparams.", "rlHyperparams": "Use hyperparams."}
    for group, is_wrong in wrong.items():
        if is_wrong:
            yield Problem(f"config.{group}", "does_not_apply", f"{group} does not apply to the method {method}.",
                          instead.get(group, "Leave it out."))
    if method == "dpo" and stated.data is not None and stated.data.packing:
        yield Problem("config.data.packing", "does_not_apply", "data.packing is true; the two answers of a preference "
                      "pair are compared with each other and never packed.", "Leave it out.")


DATA_DEFAULTS = {"truncation": "error", "packing": False, "shuffle": True}
LOSS_DEFAULTS = {"assistant_turns": "last", "train_on_tool_calls": True, "train_on_tool_results": False}


def _asks(group: Data | Loss | None, defaults: Mapping[str, Any]) -> bool:
    return group is not None and any(value != defaults.get(name) for name, value in group.model_dump().items()
                                     if value is not None)


def check_adapter(config: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """The adapter's shape is one that can be trained and loaded again."""
    lora = (config.get("hyperparams") or config["rlHyperparams"])["lora"]
    limit = (facts.base_model and facts.base_model.entry.max_rank) or facts.catalog.defaults.max_rank
    if lora["rank"] > limit:
        yield Problem("lora.rank", "rank_too_high", f"lora.rank is {lora['rank']}; endpoints here load at most "
                      f"{limit}.", f"State at most {limit}.")
    if lora["adaptExperts"]:
        yield Problem("lora.adaptExperts", "experts_refused", "lora.adaptExperts is true; the serving engine does not "
                      "apply an adapter's expert weights.", "Leave it out.")
    try:
        re.compile(lora["targetModules"])
    except re.error as error:
        yield Problem("lora.targetModules", "bad_pattern", f"lora.targetModules is no regular expression: {error}.",
                      "`default` covers every linear module of the language backbone.")


def check_schedule(config: Mapping[str, Any], method: str) -> Iterator[Problem]:
    """Only cosine decays to a floor; reinforcement engines follow constant or cosine, without dropout."""
    group = config.get("hyperparams") or config["rlHyperparams"]
    scheduler = group["scheduler"]
    if scheduler["minLearningRateRatio"] > 0 and scheduler["kind"] != "cosine":
        yield Problem("scheduler.minLearningRateRatio", "floor_without_cosine", f"scheduler.minLearningRateRatio is "
                      f"{scheduler['minLearningRateRatio']} and scheduler.kind is {scheduler['kind']}; only cosine "
                      "decays to a floor.", "Set scheduler.kind to cosine, or leave the floor out.")
    if method in REINFORCEMENT and scheduler["kind"] == "linear":
        yield Problem("scheduler.kind", "schedule_not_supported", f"scheduler.kind is linear; {method} follows a "
                      "constant or cosine schedule.", "Set scheduler.kind to one of them.")
    if method in REINFORCEMENT and group["lora"]["dropout"] > 0:
        yield Problem("lora.dropout", "dropout_not_supported", f"lora.dropout is {group['lora']['dropout']}; {method} "
                      "trains the adapter without dropout.", "Leave it out.")


def check_passes(config: Mapping[str, Any], execution: Mapping[str, Any]) -> Iterator[Problem]:
    """The devices share an update's passes evenly."""
    gpus = execution["gpus"]
    if "hyperparams" in config:
        passes = config["hyperparams"]["training"]["gradientAccumulation"]
        if passes % gpus:
            yield Problem("training.gradientAccumulation", "uneven_passes", f"training.gradientAccumulation is "
                          f"{passes} and execution.gpus is {gpus}; the devices share an update's passes evenly.",
                          _nearest_multiples(passes, gpus))
    elif config["rlHyperparams"]["promptsPerStep"] % gpus:
        prompts = config["rlHyperparams"]["promptsPerStep"]
        yield Problem("config.rlHyperparams.promptsPerStep", "uneven_prompts", f"promptsPerStep is {prompts} and "
                      f"execution.gpus is {gpus}; each device takes the same number of prompts.",
                      _nearest_multiples(prompts, gpus))


def _nearest_multiples(value: int, of: int) -> str:
    below = value // of * of
    return f"State {below} or {below + of}." if below else f"State {of}."


def check_length(config: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """No row longer than the model reads."""
    limit = facts.base_model.limit if facts.base_model else None
    if limit and config["maxSeqLength"] > limit:
        yield Problem("config.maxSeqLength", "sequence_too_long", f"maxSeqLength is {config['maxSeqLength']}; "
                      f"{facts.base_model.entry.repository} reads at most {limit} tokens.",  # type: ignore[union-attr]
                      f"State at most {limit}.")


def check_model(config: Mapping[str, Any], execution: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """Precision and attention that the engine and device have."""
    model, kind = config["model"], device_kind(execution["deviceProfile"], facts)
    if model["precision"] == "INT4" and execution["engine"] == "verl" and "rlHyperparams" in config:
        yield Problem("config.model.precision", "precision_not_supported", "model.precision is INT4; a reinforcement "
                      "run under verl needs BF16.", "Leave it out.")
    if model["attentionImplementation"] == "flex_attention" and kind == "cpu":
        yield Problem("config.model.attentionImplementation", "attention_not_supported",
                      "model.attentionImplementation is flex_attention, which needs a GPU; the run is for the box's "
                      "processors.", "Use sdpa or eager.")


def check_grader(descriptor: RunDescriptor, facts: Facts) -> Iterator[Problem]:
    """A grader that this box can score with."""
    if descriptor.grader is None:
        return
    try:
        available_grader(descriptor.grader, namespace=facts.workload.namespace if facts.workload else "")
    except OperationError as error:
        yield Problem("grader", error.code, error.detail, error.hint)


def _warn(config: Mapping[str, Any], execution: Mapping[str, Any], facts: Facts) -> Warnings:
    """What a person should know that stops nothing."""
    return [*_warn_of_precision(config, execution, facts), *_warn_of_learning(config, facts)]


def warn_of_pause(descriptor: RunDescriptor, total_steps: int | None) -> Warnings:
    """A pause that never comes, because the run is over by then."""
    step = descriptor.pause_at_step
    if not step or total_steps is None or step < total_steps:
        return []
    return [{"code": "pause_never_comes", "message": f"pauseAtStep is {step} and the run makes at most {total_steps} "
             "updates; it ends without pausing."}]


def _warn_of_learning(config: Mapping[str, Any], facts: Facts) -> Warnings:
    if "rlHyperparams" not in config:
        return []
    has_start = facts.warm_start is not None or config.get("warmStartConfigHash") is not None
    has_lines = facts.dataset is not None and facts.dataset.has_answer_lines
    return [*warn_of_reinforcement(config),
            *warn_of_reward(config["reward"], starts_from_adapter=has_start, has_answer_lines=has_lines)]


def _warn_of_precision(config: Mapping[str, Any], execution: Mapping[str, Any], facts: Facts) -> Warnings:
    if config["model"]["precision"] == "INT4" and device_kind(execution["deviceProfile"], facts) == "cpu":
        return [{"code": "int4_on_processors", "message": "INT4 on the box's processors saves memory and is slower "
                 "than BF16."}]
    return []
