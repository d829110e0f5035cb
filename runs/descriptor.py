"""The run descriptor: what a person may write, field by field. Pure: no rows, no clock, no defaults filled in.

Every field is optional here and None where it was left out, so that one wrong field never hides another; what is
required, and what an omitted field becomes, is the business of `runs.resolve`.
"""

import typing
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from optimize_site.kernel.errors import Problem
from optimize_site.kernel.text import is_unusable
from runs.wording import arms_of, describe_kind, fields_of, is_list, part_of, problem_of, shown_path

MAX_INT = 2**31 - 1
MAX_PROBLEMS = 100
SUPERVISED, REINFORCEMENT = frozenset({"sft", "dpo"}), frozenset({"grpo", "gspo"})

Count = Annotated[int, Field(ge=0, le=MAX_INT)]
Number = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
UpToOne = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(min_length=1, max_length=300)]
GraderText = Annotated[str, Field(min_length=1, max_length=2000)]


class Part(BaseModel):
    """A group of fields: strict, unchangeable, and a field it does not know is refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel,
                              validate_by_alias=True, validate_by_name=False, protected_namespaces=())


def note(text: str, default: str = "none", **more: Any) -> Any:
    """A field with what the reference says of it: its meaning and its default in words."""
    return Field(default=None, description=text, json_schema_extra={"x-default": default}, **more)


class Lora(Part):
    """The shape of the adapter."""

    rank: Count | None = note("The adapter's rank. An endpoint must be able to load it.", "8")
    alpha: Number | None = note("The scale at which the update is applied.", "twice the rank")
    dropout: Share | None = note("The probability that an adapted activation is dropped in training.", "0")
    target_modules: Name | None = note("The modules the adapter covers, as a regular expression over whole module "
                                       "paths; `default` is every linear module of the language backbone.", "default")
    adapt_experts: bool | None = note("Adapt the experts of a mixture of experts. Refused.", "false")


class Optimizer(Part):
    """What performs the update."""

    kind: Literal["adamw"] | None = note("The algorithm.", "adamw")
    learning_rate: Number | None = note("The peak learning rate.", "0.0001; 0.00001 for grpo and gspo")
    weight_decay: Number | None = note("Decoupled decay of every adapted weight.", "0; 0.01 for grpo and gspo")
    max_grad_norm: Number | None = note("The norm the gradient is clipped to before the update.", "1")


class Scheduler(Part):
    """How the learning rate changes over the run."""

    kind: Literal["linear", "cosine", "constant"] | None = note("The schedule after the warm-up.",
                                                                "linear; constant for grpo and gspo")
    warmup_ratio: Share | None = note("The share of the updates spent rising to the learning rate.", "0")
    min_learning_rate_ratio: UpToOne | None = note("The floor, as a share of the learning rate; cosine only.", "0")


class Training(Part):
    """The loop."""

    epochs: Count | None = note("Passes over the dataset.", "3")
    max_steps: Count | None = note("A cap on optimizer updates.", "none")
    micro_batch_per_gpu: Count | None = note("Sequences in one forward and backward pass on one device.",
                                             "sized from maxSeqLength")
    gradient_accumulation: Count | None = note("Passes summed into one update.", "sized from microBatchPerGpu")
    validation_frequency_steps: Count | None = note("Updates between evaluations on the validation dataset.", "100")
    seed: Count | None = note("Adapter initialisation, data order and dropout.", "42")


class Hyperparams(Part):
    """Hyperparameters of supervised and preference runs."""

    lora: Lora | None = note("The adapter.")
    optimizer: Optimizer | None = note("The update.")
    scheduler: Scheduler | None = note("The learning rate over time.")
    training: Training | None = note("The loop.")


class RlHyperparams(Part):
    """Hyperparameters of reinforcement runs."""

    lora: Lora | None = note("The adapter; without dropout.")
    optimizer: Optimizer | None = note("The update.")
    scheduler: Scheduler | None = note("constant or cosine.")
    epochs: Count | None = note("Passes over the prompts.", "1")
    max_steps: Count | None = note("The updates of the run; above zero it overrides epochs.", "0, by epochs")
    group_size: Count | None = note("Completions sampled for a prompt, at least two: they are judged against each "
                                    "other.", "4")
    prompts_per_step: Count | None = note("Prompts rolled out in a step, which is one update; a multiple of "
                                          "execution.gpus.", "8")
    kl_beta: Number | None = note("KL penalty toward the reference policy; zero is none.", "0.04")
    temperature: Number | None = note("Sampling temperature; zero is greedy.", "0.7")
    max_completion_length: Count | None = note("The longest completion sampled, in tokens; a prompt must leave room "
                                               "for it in maxSeqLength.", "256")
    staleness_threshold: Count | None = note("Not supported; above zero is refused.", "0")


class RewardTerm(Part):
    """One part of a reward: a bundle's function, a model that judges, or a grader."""

    kind: Literal["rule", "model", "grader"] | None = note("What scores: `rule` is a bundle's function, `model` a "
                                                           "judge, `grader` any grader.", "required")
    weight: Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)] | None = note("Its share of the sum.", "1")
    bundle: Name | None = note("The bundle of a rule, by name or hash.")
    module: Name | None = note("The bundle's module.")
    function: Name | None = note("The function.", "compute_score")
    model: Name | None = note("The model that judges.")
    instructions: Text | None = note("The judge's instructions.")
    grader: GraderText | None = note("A grader of the term's own, such as `exact`.", "the run's grader")


class Reward(Part):
    """How a sampled completion is scored."""

    terms: Annotated[list[RewardTerm], Field(max_length=32)] | None = note("Weighted and summed.", "the run's grader")
    on_failure: Literal["zero", "exclude"] | None = note("What an unscored completion counts as.", "zero")


class Preference(Part):
    """How a preference run weighs its pairs."""

    beta: Number | None = note("How strongly the run holds to the reference.", "0.1")
    loss_type: Literal["sigmoid", "ipo"] | None = note("The loss over a pair.", "sigmoid")
    fused_loss: bool | None = note("Hold the logits of one pair at a time, on a GPU by Liger's fused loss; false holds "
                                   "those of a whole pass.",
                                   "true where a pass holds more than one pair")


class Model(Part):
    """How the base model is loaded and what the forward pass keeps."""

    precision: Literal["BF16", "INT4"] | None = note("The base weights' precision. INT4 trains against the quantized "
                                                     "base, which is another model.", "BF16")
    gradient_checkpointing: bool | None = note("Recompute activations in the backward pass instead of keeping them.",
                                               "true above a maxSeqLength of 4096; true for dpo")
    attention_implementation: Literal["sdpa", "eager", "flex_attention"] | None = note("The attention kernel.", "sdpa")
    weight_precision: Literal["fp32", "bf16"] | None = note("The trained weights' precision; verl only.", "the box's")


class Data(Part):
    """How the run reads its data."""

    validation_dataset: Name | None = note("A second dataset, evaluated while training.")
    truncation: Literal["error", "right", "drop", "oldest", "oldest_or_drop"] | None = note(
        "What happens to a row longer than maxSeqLength. `error` refuses it; `drop` leaves it out; `oldest` removes "
        "its oldest turns, and `oldest_or_drop` leaves out what then still does not fit; `right` cuts it at the end, "
        "where an explicit mask trains none of the cut tokens.", "error")
    packing: bool | None = note("Pack short rows into one sequence; they do not see each other.", "false")
    shuffle: bool | None = note("Shuffle the rows, by the run's seed.", "true")


class Loss(Part):
    """Which tokens of a conversation the loss is taken over. System and user tokens never count."""

    assistant_turns: Literal["last", "all"] | None = note("The last assistant message, or all of them.", "last")
    train_on_tool_calls: bool | None = note("Whether calls of a trained earlier message count.", "true")
    train_on_tool_results: bool | None = note("Whether what a tool said counts.", "false")
    explicit_loss_mask_column: Name | None = note("The key under which a row may hold its own mask: a list of 0 "
                                                  "and 1, one for each token.")


class EngineSettings(Part):
    """Settings handed to verl as they are; they change memory and speed only."""

    engine: Literal["verl"] | None = note("The engine.", "required")
    settings: dict[str, Any] | None = note("Values by name.", "required")


class Config(Part):
    """What model is trained. Every field is part of the configuration hash."""

    dataset: Name | None = note("The training dataset: NS/NAME, NS/NAME:v1, a name or a hash.", "required")
    method: Literal["sft", "dpo", "grpo", "gspo"] | None = note("How the model learns.", "sft")
    hyperparams: Hyperparams | None = note("For sft and dpo.")
    rl_hyperparams: RlHyperparams | None = note("For grpo and gspo.")
    preference: Preference | None = note("For dpo.")
    reward: Reward | None = note("For grpo and gspo.", "the run's grader")
    warm_start_config_hash: Name | None = note("Set by the box from warmStartModelId; leave it out.")
    model: Model | None = note("How the base model is loaded.")
    max_seq_length: Count | None = note("The longest example, in tokens. Zero is the default too.", "2048")
    data: Data | None = note("How the data is read.")
    loss: Loss | None = note("Which tokens are trained.")
    engine_settings: EngineSettings | None = note("Settings for verl.")


class Rollout(Part):
    """Where a reinforcement run samples."""

    memory_share: UpToOne | None = note("The share of a device that the rollout engine takes; verl only.", "the box's")


class Offload(Part):
    """What is moved to host memory between passes."""

    weights: bool | None = note("The trained weights; verl only.", "the box's")


class Memory(Part):
    """Settings that trade memory for speed."""

    offload: Offload | None = note("What leaves the device between passes.")


class Execution(Part):
    """How the run is executed. Recorded with the run, outside the configuration hash."""

    gpus: Count | None = note("Devices the job claims.", "1")
    rollout_gpus: Count | None = note("Not supported; above zero is refused.", "0")
    micro_batch_sequences: Count | None = note("The most sequences of one pass on a device, a pair being two; "
                                               "only peak memory changes.", "chosen by the job")
    save_every: Count | None = note("Updates between snapshots.", "off: one save, at the end")
    keep_adapters: Count | None = note("Unreferenced adapter snapshots kept.", "5")
    keep_training_states: Count | None = note("Training states kept.", "2")
    resumable_save_every: Count | None = note("At least every so many saves hold training state.", "10")
    resumable_save_minutes: Count | None = note("And at least every so many minutes.", "5")
    device_profile: Name | None = note("The kind of device, as `capacity` names it.", "chosen by the catalog")
    engine: Name | None = note("trl or verl.", "chosen by the catalog")
    rollout: Rollout | None = note("Where completions are sampled.")
    memory: Memory | None = note("What trades memory for speed.")
    host_memory_gib: Number | None = note("Host memory the run's loader needs; checked, not passed on.", "none",
                                          alias="hostMemoryGiB")


class Smoke(Part):
    """Train on a slice until it is memorised, and check that it is."""

    slice_size: Count | None = note("Rows from the start of the dataset.", "200")
    max_steps: Count | None = note("A cap on updates.", "2000")
    threshold: UpToOne | None = note("The score that a working run reaches.", "0.98")


class RunDescriptor(Part):
    """A run, as `runs start` reads it."""

    kind: Literal["run"] | None = note("`run`.", "required")
    workload: Name | None = note("The workload, by name or ID.", "required")
    project: Name | None = note("Another word for workload.")
    base_model: Name | None = note("The base model's repository.", "the workload's base reference")
    config: Config | None = note("What is trained.", "required")
    execution: Execution | None = note("How it is executed.")
    grader: GraderText | None = note("The grader of the run's evaluations.", "the workload's")
    grader_instructions: Text | None = note("Instructions for a grader that is a model.")
    warm_start_model_id: Name | None = note("A registered adapter that a reinforcement run starts from.")
    submission_id: Annotated[str, Field(min_length=1, max_length=128)] | None = note(
        "Makes every resend reach the same run.", "a new one for each command")
    pause_at_step: Count | None = note("Save and pause at this update.")
    smoke: Smoke | None = note("Run a smoke check instead.")
    description: Text | None = note("A note, outside the run's identity.")
    config_name: Annotated[str, Field(max_length=120)] | None = note("Labels the configuration in the scores.")


def method_of(descriptor: RunDescriptor) -> str:
    """The stated method, or sft."""
    return (descriptor.config and descriptor.config.method) or "sft"


def needs_verl(descriptor: RunDescriptor) -> list[str]:
    """The stated settings that only verl honours."""
    config, execution = descriptor.config or Config(), descriptor.execution or Execution()
    offload = execution.memory and execution.memory.offload
    found = {
        "config.model.weightPrecision": config.model is not None and config.model.weight_precision is not None,
        "config.engineSettings": config.engine_settings is not None,
        "execution.rollout.memoryShare": execution.rollout is not None and execution.rollout.memory_share is not None,
        "execution.memory.offload.weights": bool(offload) and offload.weights is not None,  # type: ignore[union-attr]
    }
    return [path for path, is_stated in found.items() if is_stated]


@dataclass(frozen=True)
class Parsed:
    """A descriptor as far as it could be read, what was wrong with it, and which paths the person wrote."""

    descriptor: RunDescriptor
    problems: tuple[Problem, ...]
    stated: tuple[str, ...]


def parse_descriptor(document: Any) -> Parsed:
    """Read a descriptor; every problem at once. A field with a problem reads as left out."""
    if not isinstance(document, Mapping):
        problem = Problem("", "wrong_kind", f"A run descriptor is an object; this is {describe_kind(document)}.",
                          "Start with `kind: run`, `workload` and `config`.")
        return Parsed(RunDescriptor(), (problem,), ())
    remaining = deepcopy(dict(document))
    unstorable = list(_unstorable(remaining))
    problems = [_unusable(path) for path in unstorable]
    for path in unstorable:
        _drop(remaining, path)
    while True:
        try:
            return Parsed(RunDescriptor.model_validate(remaining), _told(problems), tuple(_stated(remaining)))
        except ValidationError as error:
            found = error.errors(include_url=False)
        problems += [problem_of(item, RunDescriptor) for item in found[:MAX_PROBLEMS + 1]]
        dropped = [_drop(remaining, item["loc"]) for item in found]
        if not any(dropped):
            return Parsed(RunDescriptor(), _told(problems), ())


def _told(problems: list[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    more = Problem("", "more_problems", f"There are more problems than these {MAX_PROBLEMS}.",
                   "Mend these, and check it again.")
    return (*problems[:MAX_PROBLEMS], more)


def _unusable(path: tuple[Any, ...]) -> Problem:
    return Problem(shown_path(path), "unusable_text", f"{shown_path(path)} holds a character that is no text.",
                   "Take out NUL characters and unpaired surrogates.")


def _unstorable(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where texts are that no database keeps."""
    if isinstance(node, str):
        if is_unusable(node):
            yield path
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from _unstorable(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _unstorable(value, (*path, index))


def reference_rows() -> list[dict[str, str]]:
    """Every field of the descriptor: its path, kind, default and meaning, in the order of the document."""
    return [{"path": ".".join(path), "kind": _written_kind(info.annotation),
             "default": str(_extra(info).get("x-default", "none")), "meaning": info.description or ""}
            for path, info in fields_of(RunDescriptor)]


def _extra(info: FieldInfo) -> dict[str, Any]:
    return info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}


def _written_kind(annotation: Any) -> str:
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    found = []
    for arm in arms_of(annotation):
        if typing.get_origin(arm) is Literal:
            found.append(", ".join(f"`{value}`" for value in typing.get_args(arm)))
        elif part_of(arm) is not None:
            found.append("list" if is_list(arm) else "object")
        else:
            found.append(words.get(arm, "object"))
    return " or ".join(dict.fromkeys(found))


def _stated(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _stated(value, (*path, str(key)))
        elif value is not None:
            yield ".".join((*path, str(key)))


def _drop(document: Any, location: tuple[Any, ...]) -> bool:
    """Take out what an error was about, so that the rest can be read; whether there was anything to take."""
    node = document
    for part in location[:-1]:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return False
    if isinstance(node, dict):
        return node.pop(location[-1], node) is not node
    if isinstance(node, list) and isinstance(location[-1], int) and location[-1] < len(node):
        node[location[-1]] = {}
        return True
    return False
