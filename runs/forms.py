"""The guided form of a new run: which descriptor fields it offers, and the document that a filled form writes.

What a field means and its default are the descriptor's own words; the form adds a label and an order. A field left
empty is left out of the document, so that the box's default stands. What a descriptor states beyond the inputs of its
method stands in one input as it is written: a form that begins with a descriptor gives the same descriptor back.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.parameter_fields import is_kept, sent_text
from runs.descriptor import REINFORCEMENT, SUPERVISED, RunDescriptor
from runs.reward_form import terms_in, terms_of
from runs.wording import arms_of, fields_of, shown_path

CHOICE_WORDS = {
    "config.data.truncation": {
        "error": "refuse the run and name them", "drop": "leave them out", "oldest": "remove their oldest turns",
        "oldest_or_drop": "remove oldest turns, leave out what still does not fit",
        "right": "cut their end, which a mask must not train"},
    "config.loss.assistantTurns": {"last": "only the final answer", "all": "every answer of a conversation"},
    "config.method": {"sft": "learns the answers of the rows", "dpo": "prefers the chosen answer of a pair",
                      "grpo": "learns from scored completions", "gspo": "the same, weighed by whole completions"},
    "config.reward.onFailure": {"zero": "scores nothing", "exclude": "leaves the completion out of its group"},
}
CHOICES = {"config.rlHyperparams.scheduler.kind": ("constant", "cosine")}
"""Where a loop takes fewer choices than the field has."""
REWARD = "Reward"
"""The group that the reward's terms stand in."""
TERMS = "config.reward.terms"
REST = "rest"
"""The input of what no other input holds, as a document."""
LONG = frozenset({"description", "graderInstructions"})
"""Fields whose text may have several lines."""
FIELDS_OF_DESCRIPTOR: dict[str, FieldInfo] = {".".join(path): info for path, info in fields_of(RunDescriptor)}


@dataclass(frozen=True)
class FormField:
    """One input of the form. `methods` are those that it is for; empty for all."""

    path: str
    label: str
    term: str = ""
    methods: frozenset[str] = frozenset()

    def is_for(self, method: str) -> bool:
        """Whether a run of the method has the field."""
        return not self.methods or method in self.methods

    @property
    def info(self) -> FieldInfo:
        return FIELDS_OF_DESCRIPTOR[self.path]

    @property
    def key(self) -> str:
        """What names the field's parts in the page."""
        return self.path.replace(".", "-")

    @property
    def problem_path(self) -> str:
        """How refusals name the field."""
        return shown_path(tuple(self.path.split(".")))

    @property
    def help(self) -> str:
        return self.info.description or ""

    @property
    def default(self) -> str:
        extra = self.info.json_schema_extra
        return str(extra.get("x-default", "none")) if isinstance(extra, dict) else "none"

    def default_for(self, method: str) -> str:
        """The default that a run of the method takes; empty where there is none."""
        first, *others = self.default.split("; ")
        named = (other.partition(" for ") for other in others)
        found = next((value for value, _, methods in named if method in methods), first)
        return "" if found in {"none", "required"} else found

    @property
    def kind(self) -> str:
        """`choice`, `flag`, `whole`, `number` or `text`."""
        arms = arms_of(self.info.annotation)
        if any(get_origin(arm) is Literal for arm in arms):
            return "choice"
        words = {bool: "flag", int: "whole", float: "number"}
        return next((word for kind, word in words.items() if kind in arms), "text")

    @property
    def choice_words(self) -> dict[str, str]:
        """What a choice means in a few words, where its name does not say."""
        return CHOICE_WORDS.get(self.path, {})

    @property
    def choices(self) -> list[str]:
        if self.path in CHOICES:
            return list(CHOICES[self.path])
        found = [arm for arm in arms_of(self.info.annotation) if get_origin(arm) is Literal]
        return ["true", "false"] if self.kind == "flag" else [str(value) for arm in found for value in get_args(arm)]

    @property
    def is_long(self) -> bool:
        return self.path in LONG

    def holds(self, value: Any) -> bool:
        """Whether the field's input, once the value stands in it, sends the value."""
        text = _write(value)
        if self.kind in {"choice", "flag"} and text not in self.choices:
            return False
        return text != "" and is_kept(text, is_long=self.is_long) and read_value(sent_text(text), self.kind) == value


T, H, R = "config.hyperparams.training", "config.hyperparams", "config.rlHyperparams"
PAIRS, ROWS = frozenset({"dpo"}), frozenset({"sft"})
METHOD = FormField("config.method", "Method")
MAIN = (
    FormField("workload", "Workload", "workload"),
    FormField("baseModel", "Base model", "base model"),
    METHOD,
    FormField("config.dataset", "Training data"),
    FormField("config.data.validationDataset", "Validation data", "validation loss", SUPERVISED),
    FormField("warmStartModelId", "Start from the adapter", "", REINFORCEMENT),
)


def _shared(name: str, label: str, term: str = "") -> tuple[FormField, FormField]:
    """A field that both loops have, each in a group of its own."""
    return FormField(f"{H}.{name}", label, term, SUPERVISED), FormField(f"{R}.{name}", label, term, REINFORCEMENT)


GROUPS: tuple[tuple[str, str, tuple[FormField, ...]], ...] = (
    ("Learning", "open", (
        FormField(f"{T}.epochs", "Epochs", "epoch", SUPERVISED),
        FormField(f"{R}.epochs", "Epochs", "epoch", REINFORCEMENT),
        FormField(f"{R}.maxSteps", "Updates", "", REINFORCEMENT),
        *_shared("optimizer.learningRate", "Learning rate", "learning rate"),
        *_shared("lora.rank", "Adapter rank", "LoRA rank"),
        FormField("config.maxSeqLength", "Longest row", "sequence length"),
    )),
    ("Pairs", "open", (
        FormField("config.preference.beta", "Hold to the reference", "", PAIRS),
        FormField("config.preference.lossType", "Loss over a pair", "", PAIRS),
        FormField("config.preference.fusedLoss", "Fused loss", "", PAIRS),
    )),
    ("Rollouts", "open", (
        FormField(f"{R}.groupSize", "Completions of a prompt", "rollout", REINFORCEMENT),
        FormField(f"{R}.promptsPerStep", "Prompts of an update", "", REINFORCEMENT),
        FormField(f"{R}.temperature", "Temperature", "", REINFORCEMENT),
        FormField(f"{R}.maxCompletionLength", "Longest completion", "", REINFORCEMENT),
        FormField(f"{R}.klBeta", "KL penalty", "KL penalty", REINFORCEMENT),
    )),
    (REWARD, "open", (
        FormField("config.reward.onFailure", "A term that fails", "", REINFORCEMENT),
        FormField("grader", "The run's grader", "grader", REINFORCEMENT),
        FormField("graderInstructions", "What a judging grader is told", "", REINFORCEMENT),
    )),
    ("Evaluations", "", (
        FormField("grader", "The run's grader", "grader", SUPERVISED),
        FormField("graderInstructions", "What a judging grader is told", "", SUPERVISED),
    )),
    ("Batch and schedule", "", (
        FormField(f"{T}.microBatchPerGpu", "Micro batch", "micro batch", SUPERVISED),
        FormField(f"{T}.gradientAccumulation", "Accumulation", "gradient accumulation", SUPERVISED),
        FormField(f"{T}.maxSteps", "Most updates", "", SUPERVISED),
        *_shared("scheduler.kind", "Schedule"),
        *_shared("scheduler.warmupRatio", "Warm-up", "warm-up"),
        *_shared("scheduler.minLearningRateRatio", "Floor of the learning rate"),
        *_shared("optimizer.weightDecay", "Weight decay"),
        *_shared("optimizer.maxGradNorm", "Gradient clip", "gradient norm"),
        FormField(f"{T}.validationFrequencySteps", "Validate every", "", SUPERVISED),
        FormField(f"{T}.seed", "Seed", "", SUPERVISED),
    )),
    ("Adapter and model", "", (
        *_shared("lora.alpha", "Adapter alpha", "LoRA alpha"),
        FormField(f"{H}.lora.dropout", "Dropout", "", SUPERVISED),
        *_shared("lora.targetModules", "Target modules"),
        FormField("config.model.precision", "Precision"),
        FormField("config.model.gradientCheckpointing", "Gradient checkpointing", "gradient checkpointing"),
        FormField("config.model.attentionImplementation", "Attention"),
    )),
    ("Rows and loss", "", (
        FormField("config.data.truncation", "Rows that are too long", "", SUPERVISED),
        FormField("config.data.packing", "Packing", "packing", ROWS),
        FormField("config.data.shuffle", "Shuffle", "", SUPERVISED),
        FormField("config.loss.assistantTurns", "Trained answers", "trained tokens", ROWS),
        FormField("config.loss.trainOnToolCalls", "Train on tool calls", "", ROWS),
        FormField("config.loss.trainOnToolResults", "Train on tool results", "", ROWS),
    )),
    ("Execution", "", (
        FormField("execution.saveEvery", "Save every", "snapshot"),
        FormField("execution.keepAdapters", "Adapters kept"),
        FormField("execution.keepTrainingStates", "Training states kept"),
        FormField("execution.resumableSaveEvery", "Resumable saves, at least every"),
        FormField("execution.resumableSaveMinutes", "And at least every so many minutes"),
        FormField("pauseAtStep", "Pause at the update"),
        FormField("execution.deviceProfile", "Kind of device"),
        FormField("execution.gpus", "Devices", "device"),
        FormField("execution.microBatchSequences", "Sequences in one pass"),
    )),
    ("Smoke check instead of the run", "", (
        FormField("smoke.sliceSize", "Rows to memorise", "smoke check", ROWS),
        FormField("smoke.maxSteps", "Most updates", "", ROWS),
        FormField("smoke.threshold", "Share to reproduce", "", ROWS),
    )),
    ("Notes", "", (
        FormField("configName", "Name of the configuration", "configuration"),
        FormField("description", "Description"),
    )),
)
ALL = (*MAIN, *(field for _, _, fields in GROUPS for field in fields))


def method_in(filled: Mapping[str, str]) -> str:
    """The method that the form is for; sft where it says none."""
    stated = filled.get(METHOD.path, "").strip()
    return stated if stated in METHOD.choices else METHOD.choices[0]


def fields_of_method(method: str) -> tuple[FormField, ...]:
    """The fields that a run of the method has, in the form's order."""
    return tuple(field for field in ALL if field.is_for(method))


def document_of(filled: Mapping[str, str]) -> dict[str, Any]:
    """The run descriptor that a filled form writes; what it holds of another method's fields is left out. A number that
    cannot be read stays the text it is. Raises InvalidInput where what is written beside the inputs cannot be read, or
    states a field that an input states."""
    document: dict[str, Any] = {"kind": "run"}
    method = method_in(filled)
    for field in fields_of_method(method):
        text = sent_text(filled.get(field.path, ""))
        if text:
            _put(document, field.path, read_value(text, field.kind))
    terms = [term.document() for term in terms_in(filled)] if method in REINFORCEMENT else []
    if terms:
        _put(document, TERMS, terms)
    _add(document, _rest_in(filled))
    document.setdefault("config", {})
    return document


def _rest_in(filled: Mapping[str, str]) -> Mapping[str, Any]:
    text = filled.get(REST, "").strip()
    found = parse_document(text, name="What is stated beside the inputs") if text else {}
    if not isinstance(found, Mapping):
        raise InvalidInput("What is stated beside the inputs is an object of the descriptor's fields.",
                           hint="Write them as a descriptor does, such as `execution: {engine: trl}`.",
                           code="malformed_document")
    return found


def _add(document: dict[str, Any], more: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
    """Add what is written to what the inputs state, group by group."""
    for name, value in more.items():
        here = (*path, str(name))
        if isinstance(document.get(name), dict) and isinstance(value, Mapping):
            _add(document[name], value, here)
        elif name in document:
            raise InvalidInput(f"{shown_path(here)} is stated by its input and again beside the inputs.",
                               hint="Leave one of them empty.", code="stated_twice")
        else:
            document[name] = value


def values_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The form's inputs for a descriptor; a reward's terms are apart. What no input holds as it is stands in REST: a
    field that the form has none for, one of another method, a text that its input would change."""
    rest = deepcopy(dict(document))
    method = method_in({METHOD.path: str(_take(document, METHOD.path) or "")})
    values: dict[str, str] = {}
    for field in fields_of_method(method):
        value = _take(document, field.path)
        if value is not None and field.holds(value):
            values[field.path] = _write(value)
            _leave_out(rest, field.path)
    if method in REINFORCEMENT and len(terms_of(reward_of(document))) == len(_take(document, TERMS) or ()):
        _leave_out(rest, TERMS)
    if rest.get("kind") == "run":
        del rest["kind"]
    return values | ({REST: json.dumps(rest, indent=2, ensure_ascii=False)} if rest else {})


def _leave_out(document: dict[str, Any], path: str) -> None:
    """Take a field out, and the groups that are empty then."""
    group, _, rest = path.partition(".")
    if not rest:
        document.pop(group, None)
    elif isinstance(document.get(group), dict):
        _leave_out(document[group], rest)
        if not document[group]:
            del document[group]


def reward_of(document: Mapping[str, Any]) -> Any:
    """The reward that a descriptor states, or None."""
    return _take(document, "config.reward")


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    *groups, name = path.split(".")
    for group in groups:
        document = document.setdefault(group, {})
    document[name] = value


def _take(document: Mapping[str, Any], path: str) -> Any:
    node: Any = document
    for name in path.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def read_value(text: str, kind: str) -> Any:
    """What an input of a kind says; a text that is nothing of the kind is given back, for the descriptor to refuse."""
    if kind == "flag":
        return {"true": True, "false": False}.get(text, text)
    if kind not in {"whole", "number"}:
        return text
    for reader in (int, float):
        try:
            return reader(text)
        except ValueError:
            continue
    return text


def _write(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_document(text: str) -> Any:
    """A pasted descriptor: JSON or YAML. Raises InvalidInput where it is neither."""
    if not text.strip():
        raise InvalidInput("There is no descriptor yet.", hint="Paste one, in JSON or YAML.", code="empty_document")
    return parse_document(text, name="The descriptor")


def write_document(document: Mapping[str, Any]) -> str:
    """A descriptor as YAML, in its own order."""
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
