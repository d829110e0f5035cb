"""Reads of data: named datasets, the examples behind a version, their rows and files."""

from collections.abc import Collection, Iterator
from copy import copy
from itertools import islice
from typing import Any

import orjson
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import CharField, Exists, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Concat

from datasets.errors import ObjectUnknown
from datasets.lines import Line, read_lines
from datasets.models import ExampleSet, OwnFiles
from datasets.pairs import FORMAT as PREFERENCE
from datasets.rows import FORMAT as CHAT
from datasets.rows import text_of
from optimize_site.kernel.blobs import blob_path, open_blob, read_chunks
from registry.models import Alias, Artifact, Version
from registry.queries import CURRENT, list_artifacts
from registry.references import DEFAULT_NAMESPACE

KIND = Artifact.Kind.DATASET
SPOKEN = (CHAT, PREFERENCE)


OF_FILES = ("num_blank_lines", "size_bytes", "shards", "findings")
"""What a set of examples says of the files it came in, rather than of its rows."""


def example_set(version: Version) -> ExampleSet:
    """The examples behind a dataset's version, with the files, and the lines in them, that are the version's own.

    It is for reading and never saved.
    """
    return example_sets([version])[version.pk]


def example_sets(versions: Collection[Version]) -> dict[str, ExampleSet]:
    """The examples behind each of several versions of datasets, as `example_set` gives them, by the version's ID."""
    sets = ExampleSet.objects.in_bulk({version.content_hash for version in versions})
    own = OwnFiles.objects.in_bulk([version.pk for version in versions])
    return {version.pk: _with_own_files(sets[version.content_hash], own.get(version.pk)) for version in versions}


def _with_own_files(examples: ExampleSet, own: OwnFiles | None) -> ExampleSet:
    if own is None:
        return examples
    found = copy(examples)
    for name in OF_FILES:
        setattr(found, name, getattr(own, name))
    return found


def version_of_files(content_hash: str) -> Version | None:
    """The version whose files a set of examples came in first: what is noted of the set names lines of these."""
    own = OwnFiles.objects.filter(version=OuterRef("pk"))
    held = Version.objects.filter(artifact__kind=KIND, content_hash=content_hash).exclude(Exists(own))
    return held.select_related("artifact__namespace").order_by("created_at").first()


def dataset_files(version: Version) -> list[str]:
    """The version's files of rows, in order, as absolute paths for a job's plan."""
    return [str(blob_path(shard["sha256"])) for shard in example_set(version).shards]


def list_datasets(*, namespace: str = "", archived: bool = False) -> QuerySet[Artifact]:
    """Named datasets as `list_artifacts` gives them, with the `num_examples` and `size_bytes` of the newest version."""
    examples = ExampleSet.objects.filter(content_hash=OuterRef("newest_hash"))
    own = OwnFiles.objects.filter(pk=OuterRef("newest_id"))
    named = list_artifacts(KIND, namespace=namespace, archived=archived)
    return named.annotate(num_examples=Subquery(examples.values("num_examples")[:1]),
                          size_bytes=Coalesce(Subquery(own.values("size_bytes")[:1]),
                                              Subquery(examples.values("size_bytes")[:1])))


def list_example_sets() -> QuerySet[ExampleSet]:
    """Every set of examples, newest first, each with its bare `names` and its versions' `references`."""
    current = Alias.objects.filter(name=CURRENT, artifact__kind=KIND, artifact__namespace=DEFAULT_NAMESPACE,
                                   version__content_hash=OuterRef("pk")).exclude(artifact__name=OuterRef("pk"))
    versions = Version.objects.filter(artifact__kind=KIND, content_hash=OuterRef("pk")).order_by("created_at")
    reference = Concat(F("artifact__namespace"), Value("/"), F("artifact__name"), Value(":v"),
                       Cast("number", CharField()))
    return ExampleSet.objects.annotate(
        names=ArraySubquery(current.order_by("artifact__name").values("artifact__name")),
        references=ArraySubquery(versions.annotate(written=reference).values("written"))).order_by("-created_at")


def names_of(content_hash: str) -> tuple[list[str], list[str]]:
    """The bare names and the references of one set of examples."""
    found: Any = list_example_sets().get(pk=content_hash)
    return found.names, found.references


def lines_of(examples: ExampleSet) -> Iterator[Line]:
    """The rows' lines, those of every file in order; blank lines are no rows."""
    for shard in examples.shards:
        with open_blob(shard["sha256"]) as file:
            yield from (line for line in read_lines(read_chunks(file)) if not line.is_blank)


def first_system_message(version: Version) -> str | None:
    """The system message of the first row: how a model trained on it expects to be spoken to."""
    examples = example_set(version)
    if examples.format not in SPOKEN:
        return None
    first = next(lines_of(examples), None)
    row = orjson.loads(first.data) if first is not None else {}
    messages = row.get("messages") or row.get("prompt") or [{}]
    return text_of(messages[0]["content"]) if messages[0].get("role") == "system" else None


def first_answers(version: Version, most: int) -> list[str]:
    """The text of the answers of a version's first rows, where it has chat rows and they are here."""
    examples = example_set(version)
    try:
        lines = list(islice(lines_of(examples), most)) if examples.format == CHAT else []
    except FileNotFoundError:
        return []
    return [text_of(orjson.loads(line.data)["messages"][-1].get("content")) for line in lines]


def get_object(version: Version, path: str) -> dict[str, Any]:
    """One object of a version by the path its listing gives it. Raises ObjectUnknown."""
    found = next((item for item in version.objects_listing if item["path"] == path), None)
    if found is None:
        held = ", ".join(item["path"] for item in version.objects_listing[:5]) or "nothing"
        raise ObjectUnknown(f"{version.reference} holds no such object.", hint=f"It holds {held}.")
    return dict(found)


def object_bytes(item: dict[str, Any]) -> Iterator[bytes]:
    """The bytes of one object of a version's listing."""
    with open_blob(item["sha256"]) as file:
        yield from read_chunks(file)
