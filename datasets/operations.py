"""What changes data: registering files as datasets, and the bare names that point at them."""

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from datasets.errors import DiskFull, FormatUnknown, LineageInvalid
from datasets.ingest import Examination, Examined, refuse_too_large
from datasets.models import ExampleSet
from datasets.rows import FORMAT
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import put_stream
from optimize_site.kernel.conf import setting
from optimize_site.kernel.models import Blob
from registry.models import Artifact, Version
from registry.operations.artifacts import NewVersion, register_version
from registry.queries import CURRENT, resolve_version
from registry.references import DEFAULT_NAMESPACE, parse_alias, parse_artifact, part

EXAMPLES_FILE = "examples.jsonl"


@dataclass(frozen=True)
class Registered:
    """A dataset's version, what it holds, and whether it is new."""

    version: Version
    examples: ExampleSet
    is_new: bool


def register_dataset(reference: str, chunks: Iterable[bytes], *, actor: Actor, alias: str = "", format: str = "",
                     lineage: dict[str, Any] | None = None, description: str = "",
                     length: int | None = None) -> Registered:
    """Register a file of chat rows, given as its bytes in order, as the next version of `NS/NAME`.

    The same examples under the same name give the version there is. Nothing is kept of a file that is refused. Raises
    DatasetInvalid with every bad line, DatasetTooLarge (before reading, where `length` is known), InvalidReference,
    ReservedAlias, FormatUnknown, DiskFull, Forbidden.
    """
    actor.require("operator")
    parse_artifact(reference)
    if alias:
        parse_alias(alias)
    _check_format(format)
    examples = _store(chunks, length, actor)
    version, is_new = register_version(Artifact.Kind.DATASET, reference, _content(examples, lineage, description),
                                       actor=actor, alias=alias)
    return Registered(version, examples, is_new)


def create_dataset(chunks: Iterable[bytes], *, actor: Actor, name: str = "", length: int | None = None) -> Registered:
    """Register a file without a namespace: under `name` (moved to it, where another dataset had it), else by its hash.

    Raises as `register_dataset`.
    """
    actor.require("operator")
    if name:
        part(name, "name", name)
    examples = _store(chunks, length, actor)
    return _name(name or examples.content_hash, examples, actor)


def name_dataset(name: str, dataset: str, *, actor: Actor) -> Registered:
    """Give a registered dataset a bare name, or move the name to it. Raises UnknownVersion, InvalidReference."""
    actor.require("operator")
    part(name, "name", name)
    version = resolve_version(Artifact.Kind.DATASET, dataset)
    return _name(name, ExampleSet.objects.get(pk=version.content_hash), actor)


def _name(name: str, examples: ExampleSet, actor: Actor) -> Registered:
    reference = f"{DEFAULT_NAMESPACE}/{name}"
    version, is_new = register_version(Artifact.Kind.DATASET, reference, _content(examples), actor=actor, alias=CURRENT)
    return Registered(version, examples, is_new)


def _content(examples: ExampleSet, lineage: dict[str, Any] | None = None, description: str = "") -> NewVersion:
    objects = [{key: shard[key] for key in ("path", "sha256", "bytes")} for shard in examples.shards]
    return NewVersion(examples.format, objects, content_hash=examples.content_hash, lineage=lineage or {},
                      description=description)


def _store(chunks: Iterable[bytes], length: int | None, actor: Actor) -> ExampleSet:
    """Keep a file's bytes and what examining them found."""
    limit = int(setting("trainer.datasets.max-bytes"))
    refuse_too_large(length or 0, limit)
    examination = Examination(limit)
    try:
        blob = put_stream(examination.passing(chunks))
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise DiskFull("There is no space left for the file.", hint="Free some disk space and send it again; nothing "
                       "was registered.") from error
    return _keep(examination.result(), blob, actor)


@transaction.atomic
def _keep(found: Examined, blob: Blob, actor: Actor) -> ExampleSet:
    """The row of these examples: the one there is, else a new one over this blob."""
    shard = {"path": EXAMPLES_FILE, "sha256": blob.sha256, "bytes": blob.size_bytes, "examples": found.num_examples}
    examples, _ = ExampleSet.objects.get_or_create(content_hash=found.content_hash, defaults={
        "format": FORMAT, "num_examples": found.num_examples, "num_tool_rows": found.num_tool_rows,
        "num_blank_lines": found.num_blank_lines, "size_bytes": found.size_bytes, "shards": [shard],
        "statistics": found.statistics, "findings": found.findings, "created_by": actor.name})
    return examples


def _check_format(format: str) -> None:
    if format not in ("", FORMAT):
        raise FormatUnknown(f"This box reads {FORMAT} so far, not {format}.",
                            hint="Leave --format out for chat rows, one JSON object a line.")


def check_lineage(value: Any) -> dict[str, Any]:
    """A dataset's lineage as its sender states it: an object of parents and producer. Raises LineageInvalid."""
    if not isinstance(value, dict):
        raise LineageInvalid("The lineage is not a JSON object.",
                             hint='For instance {"parents": ["support/raw:v1"], "producer": "clean.py"}.')
    return value
