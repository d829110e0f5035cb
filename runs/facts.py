"""What a descriptor is resolved against: plain values looked up beforehand, so that resolving stays pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimize_site.kernel.catalog import BaseModelEntry, Catalog
from optimize_site.kernel.errors import Problem
from optimize_site.kernel.judges import Appointment


@dataclass(frozen=True)
class WorkloadFacts:
    """The workload a run belongs to."""

    id: str
    name: str
    namespace: str
    grader: str = ""
    is_archived: bool = False
    is_namespace_archived: bool = False
    grader_instructions: str = ""
    """What it states for a judge, which holds for its own grader."""


@dataclass(frozen=True)
class DatasetFacts:
    """A registered dataset version, and how the descriptor named it."""

    stated: str
    reference: str
    version_id: str
    content_hash: str
    num_examples: int
    format: str = "chat-jsonl-v1"
    num_images: int = 0
    num_tool_rows: int | None = None
    """Rows that offer tools; None where nobody counted them."""
    num_call_answers: int | None = None
    """Rows whose answer calls tools; None where nobody counted them."""
    columns: Mapping[str, int] | None = None
    """Rows that hold something under each key beside messages and tools; None where nobody counted them."""
    tokenizer: str = ""
    """Of prepared token rows: the repository whose tokenizer made them."""
    chat_template_sha256: str = ""
    """Of prepared token rows: the template they were rendered under."""
    has_answer_lines: bool = False
    """Whether its first answers all end in a line that marks what they come to, such as `#### 18`; looked up for a
    reinforcement run alone."""

    def reference_document(self) -> dict[str, object]:
        """What the run keeps beside its configuration."""
        return {"stated": self.stated, "reference": self.reference, "versionId": self.version_id,
                "contentHash": self.content_hash, "numExamples": self.num_examples}


@dataclass(frozen=True)
class BundleFacts:
    """A registered bundle that scores completions, and how it was named."""

    stated: str
    reference: str
    version_id: str
    content_hash: str

    def reference_document(self) -> dict[str, object]:
        """What the run keeps beside its configuration."""
        return {"stated": self.stated, "reference": self.reference, "versionId": self.version_id,
                "contentHash": self.content_hash}


@dataclass(frozen=True)
class WarmStartFacts:
    """A registered adapter that a run starts from. `config_hash` is that of the run that trained it, or where there
    was none here the digest of the version; `lora` the shape that its own configuration states."""

    stated: str
    reference: str
    version_id: str
    config_hash: str
    base_model: str
    base_revision: str
    lora: Mapping[str, Any]

    def reference_document(self) -> dict[str, object]:
        """What the run keeps beside its configuration."""
        return {"stated": self.stated, "reference": self.reference, "versionId": self.version_id,
                "configHash": self.config_hash}


@dataclass(frozen=True)
class BaseModelFacts:
    """An allowed base model, and what selecting it found; `phase` is empty while nobody selected it."""

    entry: BaseModelEntry
    phase: str = ""
    entry_id: str = ""
    revision: str = ""
    context_length: int | None = None
    is_selected: bool = False
    failure: str = ""
    chat_template_sha256: str = ""
    """The template that runs render under, where it is known already."""

    @property
    def limit(self) -> int | None:
        """The longest sequence the model takes, where it is known."""
        return self.context_length or self.entry.context_length


@dataclass(frozen=True)
class DeviceFacts:
    """The present devices of one profile."""

    profile: str
    kind: str
    count: int
    host_memory_gib: float | None = None


@dataclass(frozen=True)
class Facts:
    """Everything looked up for one descriptor. What could not be found is None, and `problems` says why."""

    catalog: Catalog
    workload: WorkloadFacts | None = None
    base_model: BaseModelFacts | None = None
    dataset: DatasetFacts | None = None
    validation: DatasetFacts | None = None
    graders: Mapping[str, str] = field(default_factory=dict)
    """The one text of each grader that a reward names, by how it was written."""
    bundles: Mapping[str, BundleFacts] = field(default_factory=dict)
    """The bundles that a reward names, by how they are named."""
    judges: Mapping[tuple[str, str, str], Appointment] = field(default_factory=dict)
    """The models that judge for a reward, by how they are named and what they are told where that is stated."""
    warm_start: WarmStartFacts | None = None
    devices: tuple[DeviceFacts, ...] = ()
    allowed_engines: tuple[str, ...] = ("trl",)
    strict_envelopes: bool = False
    recorded: frozenset[str] = frozenset()
    """Of a branch: the memory settings that its parent recorded, which this box's limits of today do not touch."""
    problems: tuple[Problem, ...] = field(default_factory=tuple)

    def device(self, profile: str) -> DeviceFacts | None:
        """The present devices of a profile."""
        return next((found for found in self.devices if found.profile == profile), None)
