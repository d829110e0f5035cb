"""From a descriptor and the facts to what would train: every default, the hash, every problem at once. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from optimize_site.kernel.errors import Problem
from optimize_site.kernel.hashing import sha256_json
from runs.checks import check_all, warn_of_pause
from runs.descriptor import (
    REINFORCEMENT,
    SUPERVISED,
    Config,
    Data,
    Execution,
    Hyperparams,
    Lora,
    Loss,
    Model,
    Optimizer,
    Parsed,
    Preference,
    RlHyperparams,
    RunDescriptor,
    Scheduler,
    Training,
    method_of,
    needs_verl,
)
from runs.facts import Facts, WarmStartFacts
from runs.reinforcement import reinforcement_steps
from runs.reward import resolve_reward, reward_references
from runs.smoke import settings_of
from runs.wording import part_of

BATCH, PASS_TOKENS = 8, 4096
MAX_SEQ_LENGTH = 2048
CHECKPOINTING_ABOVE = 4096

OPTIMIZER = {"sft": (0.0001, 0.0), "dpo": (0.0001, 0.0), "grpo": (0.00001, 0.01), "gspo": (0.00001, 0.01)}
"""The default learning rate and weight decay of each method's loop."""
SCHEDULE = {"sft": "linear", "dpo": "linear", "grpo": "constant", "gspo": "constant"}


@dataclass(frozen=True)
class Resolved:
    """What a run would train, whether it may, and what to say about it."""

    config: dict[str, Any]
    execution: dict[str, Any]
    config_hash: str
    method: str
    stated: tuple[str, ...]
    references: dict[str, Any]
    warnings: tuple[dict[str, str], ...] = ()
    problems: tuple[Problem, ...] = field(default_factory=tuple)
    total_steps: int | None = None
    """Updates the run would make, where packing or dropped rows do not change the number; a smoke check's most."""
    smoke: dict[str, Any] | None = None
    """What a smoke check does, its defaults filled in; None for a run that is none."""

    @property
    def is_valid(self) -> bool:
        return not self.problems


def resolve(parsed: Parsed, facts: Facts) -> Resolved:
    """Fill every default and check everything; what is wrong stands in `problems`, and the rest is resolved anyway."""
    descriptor = parsed.descriptor
    method = method_of(descriptor)
    execution = resolve_execution(descriptor, facts)
    config = resolve_config(descriptor, facts, engine=execution["engine"])
    found, warnings = check_all(descriptor, facts, config, execution)
    known, smoke = [*parsed.problems, *facts.problems], settings_of(descriptor)
    steps = smoke["maxSteps"] if smoke else total_steps(config, facts)
    warnings += warn_of_pause(descriptor, steps)
    problems = (*known, *(problem for problem in found if not _is_covered(problem, known)))
    return Resolved(in_order(config, Config), execution, config_hash(config), method, parsed.stated,
                    _references(descriptor, config, facts), tuple(warnings), problems, steps, smoke)


def in_order(values: dict[str, Any], part: type[BaseModel]) -> dict[str, Any]:
    """Settings in the order of the descriptor; neither resolving nor the database keeps it."""
    fields = {str(info.alias): part_of(info.annotation) for info in part.model_fields.values()}
    known = {name: values[name] for name in fields if name in values} | values
    return {name: in_order(value, inner) if isinstance(value, dict) and (inner := fields.get(name)) else value
            for name, value in known.items()}


def config_hash(config: Mapping[str, Any]) -> str:
    """The configuration's identifier: SHA-256 of its canonical JSON, defaults written in."""
    return sha256_json(config)


def resolve_config(descriptor: RunDescriptor, facts: Facts, *, engine: str) -> dict[str, Any]:
    """The configuration as it trains. Groups that do not apply to the method are absent."""
    stated = descriptor.config or Config()
    method = method_of(descriptor)
    length = stated.max_seq_length or MAX_SEQ_LENGTH
    config: dict[str, Any] = {"dataset": facts.dataset.content_hash if facts.dataset else None, "method": method}
    if method in SUPERVISED:
        config["hyperparams"] = _hyperparams(stated, method, length)
        config |= {"data": _data(stated, facts), "loss": _loss(stated)}
    else:
        config["rlHyperparams"] = _rl_hyperparams(stated, method, facts.warm_start)
        config["reward"] = resolve_reward(descriptor, facts)
        if facts.warm_start is not None:
            config["warmStartConfigHash"] = facts.warm_start.config_hash
    if method == "dpo":
        config["preference"] = _preference(stated, config["hyperparams"]["training"]["microBatchPerGpu"])
    config["model"] = _model(stated, method, length, engine, facts)
    config["maxSeqLength"] = length
    if stated.engine_settings is not None:
        config["engineSettings"] = _stated_part(stated.engine_settings)
    return config


def resolve_execution(descriptor: RunDescriptor, facts: Facts) -> dict[str, Any]:
    """The execution settings as the run would use them; those that only verl honours are absent under TRL."""
    stated = descriptor.execution or Execution()
    engine = choose_engine(descriptor, facts)
    execution: dict[str, Any] = {
        "gpus": stated.gpus or 1, "rolloutGpus": stated.rollout_gpus or 0,
        "microBatchSequences": stated.micro_batch_sequences or None, "saveEvery": stated.save_every or None,
        "keepAdapters": stated.keep_adapters or 5, "keepTrainingStates": stated.keep_training_states or 2,
        "resumableSaveEvery": stated.resumable_save_every or 10,
        "resumableSaveMinutes": stated.resumable_save_minutes or 5,
        "deviceProfile": stated.device_profile or choose_profile(facts), "engine": engine,
        "hostMemoryGiB": _neat(stated.host_memory_gib) or None,
    }
    if _honours_memory(engine, facts):
        memory = facts.catalog.defaults.memory
        share = stated.rollout and stated.rollout.memory_share
        offload = stated.memory and stated.memory.offload and stated.memory.offload.weights
        if method_of(descriptor) in REINFORCEMENT:
            execution["rollout"] = {"memoryShare": memory.memory_share if share is None else share}
        execution["memory"] = {"offload": {"weights": memory.offload_weights if offload is None else offload}}
    return execution


def choose_engine(descriptor: RunDescriptor, facts: Facts) -> str:
    """The stated engine, verl where a setting needs it, else the catalog's first that the box allows."""
    stated = descriptor.execution and descriptor.execution.engine
    if stated:
        return stated
    if needs_verl(descriptor):
        return "verl"
    listed = facts.base_model.entry.trains_with(method_of(descriptor)) if facts.base_model else []
    return next((engine for engine in listed if engine in facts.allowed_engines), listed[0] if listed else "trl")


def choose_profile(facts: Facts) -> str:
    """The profile of the box's accelerators where it has some, else of its processors."""
    accelerators = [device.profile for device in facts.devices if device.kind == "cuda"]
    present = [device.profile for device in facts.devices]
    return (accelerators or present or [facts.catalog.defaults.device_profile])[0]


def size_passes(micro_batch: int | None, accumulation: int | None, tokens_a_sequence: int) -> tuple[int, int]:
    """Both halves of an update's batch. Where neither is stated: the largest divisor of 8 whose tokens fit one pass."""
    if micro_batch and accumulation:
        return micro_batch, accumulation
    if micro_batch:
        return micro_batch, -(-BATCH // micro_batch)
    if accumulation:
        return -(-BATCH // accumulation), accumulation
    fitting = [size for size in (8, 4, 2, 1) if size * tokens_a_sequence <= PASS_TOKENS]
    size = fitting[0] if fitting else 1
    return size, BATCH // size


def total_steps(config: Mapping[str, Any], facts: Facts) -> int | None:
    """How many updates a run makes, where its rows are the dataset's rows."""
    if facts.dataset is None:
        return None
    if "rlHyperparams" in config:
        return reinforcement_steps(config, facts.dataset.num_examples)
    if config["data"]["packing"]:
        return None
    training = config["hyperparams"]["training"]
    batch = training["microBatchPerGpu"] * training["gradientAccumulation"]
    steps: int = -(-facts.dataset.num_examples // batch) * training["epochs"]
    return min(steps, int(training["maxSteps"])) if training["maxSteps"] else steps


def _is_covered(problem: Problem, known: list[Problem]) -> bool:
    """Whether a field's own mistake already explains a later finding about it."""
    return any(problem.path == other.path or problem.path.startswith(other.path + ".") for other in known if other.path)


def _references(descriptor: RunDescriptor, config: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    base = facts.base_model
    rewarded = {"reward": reward_references(descriptor, config["reward"], facts)} if "reward" in config else {}
    start = {"warmStart": facts.warm_start.reference_document()} if facts.warm_start else {}
    return rewarded | start | {
        "dataset": facts.dataset.reference_document() if facts.dataset else None,
        "validationDataset": facts.validation.reference_document() if facts.validation else None,
        "baseModel": {"repository": base.entry.repository, "revision": base.revision, "entryId": base.entry_id}
        if base else None,
    }


def _hyperparams(stated: Config, method: str, length: int) -> dict[str, Any]:
    given = stated.hyperparams or Hyperparams()
    return {"lora": _lora(given.lora), "optimizer": _optimizer(given.optimizer, method),
            "scheduler": _scheduler(given.scheduler, method),
            "training": _training(given.training, length * (2 if method == "dpo" else 1))}


def _lora(given: Lora | None) -> dict[str, Any]:
    given = given or Lora()
    rank = given.rank or 8
    return {"rank": rank, "alpha": _neat(given.alpha) or 2 * rank, "dropout": _neat(given.dropout) or 0,
            "targetModules": given.target_modules or "default", "adaptExperts": bool(given.adapt_experts)}


def _optimizer(given: Optimizer | None, method: str) -> dict[str, Any]:
    given = given or Optimizer()
    rate, decay = OPTIMIZER[method]
    return {"kind": given.kind or "adamw", "learningRate": given.learning_rate or rate,
            "weightDecay": _neat(given.weight_decay or decay), "maxGradNorm": _neat(given.max_grad_norm) or 1}


def _scheduler(given: Scheduler | None, method: str) -> dict[str, Any]:
    given = given or Scheduler()
    return {"kind": given.kind or SCHEDULE[method], "warmupRatio": _neat(given.warmup_ratio) or 0,
            "minLearningRateRatio": _neat(given.min_learning_rate_ratio) or 0}


def _training(given: Training | None, tokens_a_sequence: int) -> dict[str, Any]:
    given = given or Training()
    micro_batch, accumulation = size_passes(given.micro_batch_per_gpu, given.gradient_accumulation, tokens_a_sequence)
    return {"epochs": given.epochs or 3, "maxSteps": given.max_steps or None, "microBatchPerGpu": micro_batch,
            "gradientAccumulation": accumulation,
            "validationFrequencySteps": given.validation_frequency_steps or 100, "seed": given.seed or 42}


def _rl_hyperparams(stated: Config, method: str, start: WarmStartFacts | None) -> dict[str, Any]:
    """A run that starts from an adapter trains it in the shape it has."""
    given = stated.rl_hyperparams or RlHyperparams()
    return {
        "lora": _lora(given.lora) | dict(start.lora if start else {}), "optimizer": _optimizer(given.optimizer, method),
        "scheduler": _scheduler(given.scheduler, method),
        "epochs": given.epochs or 1, "groupSize": given.group_size or 4,
        "promptsPerStep": given.prompts_per_step or 8,
        "maxCompletionLength": given.max_completion_length or 256,
        "maxSteps": _kept(given.max_steps, 0), "klBeta": _kept(given.kl_beta, 0.04),
        "temperature": _kept(given.temperature, 0.7),
        "stalenessThreshold": _kept(given.staleness_threshold, 0),
    }


def _preference(stated: Config, micro_batch: int) -> dict[str, Any]:
    given = stated.preference or Preference()
    return {"beta": _neat(given.beta or 0.1), "lossType": given.loss_type or "sigmoid",
            "fusedLoss": micro_batch > 1 if given.fused_loss is None else given.fused_loss}


def _model(stated: Config, method: str, length: int, engine: str, facts: Facts) -> dict[str, Any]:
    given = stated.model or Model()
    checkpointing = given.gradient_checkpointing
    if checkpointing is None:
        checkpointing = method == "dpo" or length > CHECKPOINTING_ABOVE
    model: dict[str, Any] = {"precision": given.precision or "BF16", "gradientCheckpointing": checkpointing,
                             "attentionImplementation": given.attention_implementation or "sdpa"}
    if _honours_memory(engine, facts):
        model["weightPrecision"] = given.weight_precision or facts.catalog.defaults.memory.weight_precision
    return model


def _honours_memory(engine: str, facts: Facts) -> bool:
    entry = facts.catalog.engines.get(engine)
    return entry is not None and entry.honours_memory_settings


def _data(stated: Config, facts: Facts) -> dict[str, Any]:
    given = stated.data or Data()
    return {"validationDataset": facts.validation.content_hash if facts.validation else None,
            "truncation": given.truncation or "error", "packing": bool(given.packing),
            "shuffle": given.shuffle is not False}


def _loss(stated: Config) -> dict[str, Any]:
    given = stated.loss or Loss()
    return {"assistantTurns": given.assistant_turns or "last",
            "trainOnToolCalls": given.train_on_tool_calls is not False,
            "trainOnToolResults": bool(given.train_on_tool_results),
            "explicitLossMaskColumn": given.explicit_loss_mask_column}


def _stated_part(part: Any) -> dict[str, Any]:
    body: dict[str, Any] = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    return body


def _kept(value: Any, default: Any) -> Any:
    """A number whose zero means zero."""
    return _neat(default if value is None else value)


def _neat(value: Any) -> Any:
    """A whole number without its point, as people write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
