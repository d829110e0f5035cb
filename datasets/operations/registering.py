"""What changes data: registering files as datasets, and the bare names that point at them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from datasets.errors import FormatMismatch, FormatUnknown
from datasets.formats.known import known_formats
from datasets.models import ExampleSet, OwnFiles
from datasets.operations.intake import Contents, take_in
from datasets.queries import OF_FILES, example_set
from optimize_site.kernel.auth import Actor
from registry.lineage import resolve_lineage
from registry.models import Artifact, Version
from registry.operations.artifacts import NewVersion, register_version
from registry.operations.namespaces import check_open
from registry.queries import CURRENT, resolve_version
from registry.references import DEFAULT_NAMESPACE, parse_alias, parse_artifact, part


@dataclass(frozen=True)
class Registered:
    """A dataset's version, what it holds, and whether it is new.

    `sent` is what was taken in: its findings name its own lines, though an earlier file with the same examples is kept.
    """

    version: Version
    examples: ExampleSet
    is_new: bool
    sent: Contents | None = None


def register_dataset(reference: str, chunks: Iterable[bytes], *, actor: Actor, alias: str = "", format: str = "",
                     lineage: dict[str, Any] | None = None, description: str = "", length: int | None = None,
                     images: str = "") -> Registered:
    """Register a file, given as its bytes in order, as the next version of `NS/NAME`.

    `images` is the digest of the list of images that was sent for it. The same examples under the same name give the
    version there is. Nothing is kept of a file that is refused. Raises DatasetInvalid with every bad line,
    DatasetTooLarge (before reading, where `length` is known), InvalidReference, ReservedAlias, FormatUnknown,
    FormatMismatch, NamespaceArchived, MalformedLineage, DiskFull, Forbidden.
    """
    actor.require("operator")
    check_names(reference, alias, format)
    resolve_lineage(lineage or {}, parse_artifact(reference).namespace)
    contents = take_in(chunks, length=length, images=images)
    check_stated_format(format, contents.format)
    return keep_version(reference, contents, actor=actor, alias=alias, lineage=lineage, description=description)


def check_names(reference: str, alias: str = "", format: str = "") -> None:
    """Raises InvalidReference, ReservedAlias, FormatUnknown, NamespaceArchived before anything is read."""
    check_open(parse_artifact(reference).namespace)
    if alias:
        parse_alias(alias)
    if format and format not in known_formats():
        raise FormatUnknown(f"There is no format {format}; the formats are {', '.join(known_formats())}.",
                            hint="Leave it out: the file's bytes say which it is.")


def check_stated_format(stated: str, found: str) -> None:
    """Raises FormatMismatch where a file is of another format than its sender says."""
    if stated not in ("", found):
        raise FormatMismatch(f"The file is {found}, not {stated}.", hint="Leave the format out: the bytes say it.")


def keep_version(reference: str, contents: Contents, *, actor: Actor, alias: str = "",
                 lineage: dict[str, Any] | None = None, description: str = "") -> Registered:
    """Register what was taken in. Raises NamespaceArchived, MalformedLineage, ReservedAlias."""
    with transaction.atomic():
        examples = keep_examples(contents, actor)
        new = _new_version(reference, contents, lineage or {}, description)
        version, is_new = register_version(Artifact.Kind.DATASET, reference, new, actor=actor, alias=alias)
        if is_new:
            _keep_own_files(version, examples, _of_files(contents))
    return Registered(version, example_set(version), is_new, contents)


def keep_examples(contents: Contents, actor: Actor) -> ExampleSet:
    """The row of these examples: the one there is, else a new one over these files."""
    facts = contents.facts
    examples, _ = ExampleSet.objects.get_or_create(content_hash=contents.content_hash, defaults={
        "format": contents.format, "num_examples": contents.num_examples, "num_tool_rows": facts.num_tool_rows,
        "num_images": facts.num_images, "num_blank_lines": contents.num_blank_lines,
        "size_bytes": contents.size_bytes, "shards": contents.shards, "statistics": facts.statistics,
        "findings": facts.findings, "details": facts.details, "created_by": actor.name})
    return examples


def _of_files(contents: Contents) -> dict[str, Any]:
    """What is kept of the files, as `queries.OF_FILES` names it."""
    return {"num_blank_lines": contents.num_blank_lines, "size_bytes": contents.size_bytes,
            "shards": contents.shards, "findings": contents.facts.findings}


def _keep_own_files(version: Version, examples: ExampleSet, own: dict[str, Any]) -> None:
    """Note a new version's files where they are not those that its examples came in first."""
    if own["shards"] != examples.shards:
        OwnFiles.objects.create(version=version, **own)


def _new_version(reference: str, contents: Contents, lineage: dict[str, Any], description: str) -> NewVersion:
    """What to register: the objects as they were sent, but those of the version that has the same examples already."""
    parsed = parse_artifact(reference)
    known = Version.objects.filter(artifact__kind=Artifact.Kind.DATASET, artifact__namespace=parsed.namespace,
                                   artifact__name=parsed.name, content_hash=contents.content_hash).first()
    objects = known.objects_listing if known is not None else contents.objects
    return NewVersion(contents.format, objects, content_hash=contents.content_hash, descriptor=contents.descriptor,
                      lineage=lineage, description=description)


def create_dataset(chunks: Iterable[bytes], *, actor: Actor, name: str = "", length: int | None = None,
                   images: str = "") -> Registered:
    """Register a file without a namespace: under `name` (moved to it, where another dataset had it), else by its hash.

    Raises as `register_dataset`.
    """
    actor.require("operator")
    if name:
        part(name, "name", name)
    check_open(DEFAULT_NAMESPACE)
    contents = take_in(chunks, length=length, images=images)
    return keep_version(f"{DEFAULT_NAMESPACE}/{name or contents.content_hash}", contents, actor=actor, alias=CURRENT)


def name_dataset(name: str, dataset: str, *, actor: Actor) -> Registered:
    """Give a registered dataset a bare name, or move the name to it. Raises UnknownVersion, InvalidReference."""
    actor.require("operator")
    part(name, "name", name)
    found = resolve_version(Artifact.Kind.DATASET, dataset)
    new = NewVersion(found.format, found.objects_listing, content_hash=found.content_hash, descriptor=found.descriptor)
    version, is_new = register_version(Artifact.Kind.DATASET, f"{DEFAULT_NAMESPACE}/{name}", new, actor=actor,
                                       alias=CURRENT)
    examples = example_set(found)
    if is_new:
        _keep_own_files(version, ExampleSet.objects.get(pk=examples.pk), {key: getattr(examples, key)
                                                                         for key in OF_FILES})
    return Registered(version, examples, is_new)
