"""Whether this box can carry a run: its engine, devices, memory settings and measurements. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from optimize_site.kernel.catalog import EngineSetting, Envelope
from optimize_site.kernel.errors import Problem
from runs.descriptor import REINFORCEMENT, Config, Execution, RunDescriptor, method_of, needs_verl
from runs.facts import BaseModelFacts, Facts

Warnings = list[dict[str, str]]
LATER = "It is read and checked in this version, and does not run yet."


def check_engine(descriptor: RunDescriptor, execution: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """The engine exists, the box allows it, the model lists it, and it honours what was stated."""
    engine, catalog = execution["engine"], facts.catalog
    needing = needs_verl(descriptor)
    path = "execution.engine"
    if engine not in catalog.engines:
        yield Problem(path, "unknown_engine", f"execution.engine is {engine!r}; the catalog knows "
                      f"{', '.join(catalog.engines)}.")
        return
    if engine == "trl":
        for setting in needing:
            yield Problem(setting, "engine_does_not_honour", f"{setting} is honoured by verl only, and "
                          "execution.engine is trl.", "Leave one of them out.")
    entry = facts.base_model.entry if facts.base_model else None
    listed = entry.trains_with(method_of(descriptor)) if entry else [engine]
    reasons = needing if engine != "trl" and needing and not _states_engine(descriptor) else [path]
    for where in reasons:
        yield from _check_engine_choice(where, engine, listed, descriptor, facts)


def _check_engine_choice(path: str, engine: str, listed: list[str], descriptor: RunDescriptor,
                         facts: Facts) -> Iterator[Problem]:
    cause = "" if path == "execution.engine" else f"{path} needs verl, and "
    if engine not in listed and facts.base_model and not facts.base_model.entry.serving_only:
        yield Problem(path, "engine_not_listed", f"{cause}{facts.base_model.entry.repository} is not listed for "
                      f"{method_of(descriptor)} under {engine}; the catalog lists {', '.join(listed) or 'no engine'}.")
    elif engine not in facts.allowed_engines:
        yield Problem(path, "engine_not_allowed", f"{cause}the engine {engine} is not allowed on this box; "
                      f"{', '.join(facts.allowed_engines)} {'is' if len(facts.allowed_engines) == 1 else 'are'}.",
                      "The setting trainer.runs.allowed-engines says which are.")
    elif not facts.catalog.engines[engine].methods:
        yield Problem(path, "engine_not_available", f"{cause}the engine {engine} cannot run in this version.", LATER)


def _states_engine(descriptor: RunDescriptor) -> bool:
    return bool(descriptor.execution and descriptor.execution.engine)


def check_engine_settings(stated: Config, method: str, facts: Facts) -> Iterator[Problem]:
    """Each setting is one that the box allows, of the right kind, and of use to the method."""
    given, path = stated.engine_settings, "config.engineSettings"
    if given is None:
        return
    if given.engine is None:
        yield Problem(f"{path}.engine", "required", "engineSettings.engine is missing.", "It is `verl`.")
    if not given.settings:
        yield Problem(f"{path}.settings", "required", "engineSettings.settings is missing or empty.")
    known = facts.catalog.engines["verl"].settings if "verl" in facts.catalog.engines else {}
    for name, value in (given.settings or {}).items():
        yield from _check_setting(f"{path}.settings.{name}", name, value, known.get(name), method)


def _check_setting(path: str, name: str, value: Any, known: EngineSetting | None, method: str) -> Iterator[Problem]:
    if known is None or not known.allowed:
        yield Problem(path, "setting_not_allowed", f"The engine setting {name} is not one that this box allows.")
    elif known.is_rollout and method not in REINFORCEMENT:
        yield Problem(path, "setting_does_not_apply", f"The engine setting {name} is for rollouts; the method is "
                      f"{method}.", "Leave it out.")
    elif (known.kind == "bool") != isinstance(value, bool) or (known.kind == "int" and not isinstance(value, int)):
        wanted = "true or false" if known.kind == "bool" else "a whole number"
        yield Problem(path, "wrong_kind", f"The engine setting {name} is {value!r}; it must be {wanted}.")


def check_devices(execution: Mapping[str, Any], facts: Facts) -> Iterator[Problem]:
    """The box has the devices, and enough of them."""
    profile, gpus = execution["deviceProfile"], execution["gpus"]
    device, engine = facts.device(profile), facts.catalog.engines.get(execution["engine"])
    if facts.devices and device is None:
        present = ", ".join(found.profile for found in facts.devices)
        yield Problem("execution.deviceProfile", "no_such_device", f"execution.deviceProfile is {profile!r}; this box "
                      f"has {present}.", "Leave it out to take what there is.")
        return
    most = min([facts.catalog.defaults.max_gpus_per_run, *([device.count] if device else [])])
    if gpus > most:
        yield Problem("execution.gpus", "too_many_devices", f"execution.gpus is {gpus}; a run here may use at most "
                      f"{most} of {profile}.", f"State at most {most}.")
    elif engine is not None and gpus > engine.max_gpus:
        yield Problem("execution.gpus", "too_many_devices_for_engine", f"execution.gpus is {gpus}; {engine.title} "
                      f"trains on {engine.max_gpus} device{'s' if engine.max_gpus > 1 else ''} in this version.",
                      f"State {engine.max_gpus}.")
    needed = execution["hostMemoryGiB"]
    if needed and device and device.host_memory_gib and needed > device.host_memory_gib:
        yield Problem("execution.hostMemoryGiB", "host_memory_too_small", f"execution.hostMemoryGiB is {needed:g}; the "
                      f"node of {profile} has {device.host_memory_gib:.1f}.", "State less, or leave it out.")


def check_memory(descriptor: RunDescriptor, facts: Facts) -> Iterator[Problem]:
    """Memory settings the box lets a run state, within its range. Values that a parent recorded stand as they are."""
    memory, execution = facts.catalog.defaults.memory, descriptor.execution or Execution()
    for path in needs_verl(descriptor):
        name = path.removeprefix("config.model.").removeprefix("execution.")
        if name not in {"config.engineSettings", *memory.stateable} and path not in facts.recorded:
            yield Problem(path, "setting_not_allowed", f"{name} is not a setting that a run may state on this box.")
    share = execution.rollout.memory_share if execution.rollout else None
    low, high = memory.memory_share_range
    if share is not None and method_of(descriptor) not in REINFORCEMENT:
        yield Problem("execution.rollout.memoryShare", "does_not_apply", "rollout.memoryShare is for rollouts, and a "
                      f"{method_of(descriptor)} run has none.", "Leave it out.")
    elif share is not None and not low <= share <= high and "execution.rollout.memoryShare" not in facts.recorded:
        yield Problem("execution.rollout.memoryShare", "out_of_range", f"rollout.memoryShare is {share}; this box "
                      f"allows {low} to {high}.")


def check_envelope(config: Mapping[str, Any], execution: Mapping[str, Any], facts: Facts,
                   method: str) -> tuple[list[Problem], Warnings]:
    """Whether a measurement covers the run: a warning where the catalog is advisory, a refusal where it is strict."""
    base = facts.base_model
    if base is None or base.entry.serving_only:
        return [], []
    covering = [envelope for envelope in base.entry.envelopes if _covers(envelope, config, execution, method)]
    if covering:
        return [], _warn_of_memory(covering, execution, facts)
    detail = (f"{base.entry.repository} has not been measured with {method} on {execution['gpus']} × "
              f"{execution['deviceProfile']} at a maxSeqLength of {config['maxSeqLength']} and "
              f"{config['model']['precision']}")
    if not facts.strict_envelopes:
        return [], [{"code": "unmeasured_envelope",
                     "message": f"{detail}; the run may run out of device memory. {_measured(base)}"}]
    return [Problem("baseModel", "unmeasured_envelope", f"{detail}, and this box admits measured runs only.",
                    _measured(base))], []


def _warn_of_memory(covering: list[Envelope], execution: Mapping[str, Any], facts: Facts) -> Warnings:
    """Where every measurement took more host memory than the node has."""
    device = facts.device(execution["deviceProfile"])
    needed = min(envelope.host_memory_gib or 0 for envelope in covering)
    if device is None or device.host_memory_gib is None or needed <= device.host_memory_gib:
        return []
    return [{"code": "memory_below_measurement", "message": f"Such a run was measured to take {needed:g} GiB of host "
             f"memory, and the node has {device.host_memory_gib:.1f}; the run may run out of host memory."}]


def _covers(envelope: Envelope, config: Mapping[str, Any], execution: Mapping[str, Any], method: str) -> bool:
    passes = config["hyperparams"]["training"]["microBatchPerGpu"] if "hyperparams" in config else 1
    return (envelope.device_profile == execution["deviceProfile"] and envelope.gpus == execution["gpus"]
            and method in envelope.methods and config["model"]["precision"] in envelope.precisions
            and execution["engine"] in envelope.engines and config["maxSeqLength"] <= envelope.max_seq_length
            and passes * config["maxSeqLength"] <= envelope.max_pass_tokens)


def _measured(base: BaseModelFacts) -> str:
    found = [f"{', '.join(envelope.methods)} on {envelope.gpus} × {envelope.device_profile} at "
             f"{', '.join(envelope.precisions)} up to {envelope.max_seq_length} tokens"
             for envelope in base.entry.envelopes]
    return f"Measured: {'; '.join(found)}." if found else "Nothing was measured for this model yet."


def device_kind(profile: str, facts: Facts) -> str:
    """cpu or cuda; a profile the catalog does not know is a GPU's own name."""
    known = facts.catalog.devices.get(profile)
    return known.kind if known else "cuda"
