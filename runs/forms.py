"""The guided form of a new run: which descriptor fields it offers, and the document that a filled form writes.

What a field means and its default are the descriptor's own words; the form adds a label and an order. A field left
empty is left out of the document, so that the box's default stands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import InvalidInput
from runs.descriptor import RunDescriptor
from runs.wording import arms_of, fields_of, shown_path

CHOICE_WORDS = {
    "config.data.truncation": {
        "error": "refuse the run and name them", "drop": "leave them out", "oldest": "remove their oldest turns",
        "oldest_or_drop": "remove oldest turns, leave out what still does not fit",
        "right": "cut their end, which a mask must not train"},
    "config.loss.assistantTurns": {"last": "only the final answer", "all": "every answer of a conversation"},
}
FIELDS_OF_DESCRIPTOR: dict[str, FieldInfo] = {".".join(path): info for path, info in fields_of(RunDescriptor)}


@dataclass(frozen=True)
class FormField:
    """One input of the form."""

    path: str
    label: str
    term: str = ""

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

    @property
    def short_default(self) -> str:
        """The default of the method that the form trains with; empty where there is none."""
        found = self.default.partition(";")[0]
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
        found = [arm for arm in arms_of(self.info.annotation) if get_origin(arm) is Literal]
        return ["true", "false"] if self.kind == "flag" else [str(value) for arm in found for value in get_args(arm)]


T, H = "config.hyperparams.training", "config.hyperparams"
MAIN = (
    FormField("workload", "Workload", "workload"),
    FormField("baseModel", "Base model", "base model"),
    FormField("config.dataset", "Training data"),
    FormField("config.data.validationDataset", "Validation data", "validation loss"),
)
GROUPS: tuple[tuple[str, str, tuple[FormField, ...]], ...] = (
    ("Learning", "open", (
        FormField(f"{T}.epochs", "Epochs", "epoch"),
        FormField(f"{H}.optimizer.learningRate", "Learning rate", "learning rate"),
        FormField(f"{H}.lora.rank", "Adapter rank", "LoRA rank"),
        FormField("config.maxSeqLength", "Longest row", "sequence length"),
    )),
    ("Batch and schedule", "", (
        FormField(f"{T}.microBatchPerGpu", "Micro batch", "micro batch"),
        FormField(f"{T}.gradientAccumulation", "Accumulation", "gradient accumulation"),
        FormField(f"{T}.maxSteps", "Most updates"),
        FormField(f"{H}.scheduler.kind", "Schedule"),
        FormField(f"{H}.scheduler.warmupRatio", "Warm-up", "warm-up"),
        FormField(f"{H}.scheduler.minLearningRateRatio", "Floor of the learning rate"),
        FormField(f"{H}.optimizer.weightDecay", "Weight decay"),
        FormField(f"{H}.optimizer.maxGradNorm", "Gradient clip", "gradient norm"),
        FormField(f"{T}.validationFrequencySteps", "Validate every"),
        FormField(f"{T}.seed", "Seed"),
    )),
    ("Adapter and model", "", (
        FormField(f"{H}.lora.alpha", "Adapter alpha", "LoRA alpha"),
        FormField(f"{H}.lora.dropout", "Dropout"),
        FormField(f"{H}.lora.targetModules", "Target modules"),
        FormField("config.model.precision", "Precision"),
        FormField("config.model.gradientCheckpointing", "Gradient checkpointing", "gradient checkpointing"),
        FormField("config.model.attentionImplementation", "Attention"),
    )),
    ("Rows and loss", "", (
        FormField("config.data.truncation", "Rows that are too long"),
        FormField("config.data.packing", "Packing", "packing"),
        FormField("config.data.shuffle", "Shuffle"),
        FormField("config.loss.assistantTurns", "Trained answers", "trained tokens"),
        FormField("config.loss.trainOnToolCalls", "Train on tool calls"),
        FormField("config.loss.trainOnToolResults", "Train on tool results"),
    )),
    ("Execution", "", (
        FormField("execution.saveEvery", "Save every", "snapshot"),
        FormField("execution.keepAdapters", "Adapters kept"),
        FormField("execution.gpus", "Devices", "device"),
        FormField("execution.microBatchSequences", "Sequences in one pass"),
    )),
    ("Smoke check instead of the run", "", (
        FormField("smoke.sliceSize", "Rows to memorise", "smoke check"),
        FormField("smoke.maxSteps", "Most updates"),
        FormField("smoke.threshold", "Share to reproduce"),
    )),
    ("Notes", "", (
        FormField("configName", "Name of the configuration", "configuration"),
        FormField("description", "Description"),
    )),
)
ALL = (*MAIN, *(field for _, _, fields in GROUPS for field in fields))


def document_of(filled: Mapping[str, str]) -> dict[str, Any]:
    """The run descriptor that a filled form writes. A number that cannot be read stays the text it is."""
    document: dict[str, Any] = {"kind": "run"}
    for field in ALL:
        text = filled.get(field.path, "").strip()
        if text:
            _put(document, field.path, _read(text, field.kind))
    document.setdefault("config", {})
    return document


def values_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The form's values for a descriptor; what the form does not offer is left out."""
    found = {field.path: _take(document, field.path) for field in ALL}
    return {path: _write(value) for path, value in found.items() if value is not None}


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


def _read(text: str, kind: str) -> Any:
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
