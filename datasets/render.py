"""Datasets as JSON documents."""

from collections.abc import Collection
from typing import Any

from datasets import queries, upload_queries
from datasets.formats import shown_details
from datasets.models import ExampleSet, Upload
from datasets.operations import Registered
from datasets.pairs import FORMAT as PREFERENCE
from registry.models import Artifact, Version
from registry.queries import list_versions, listed
from registry.render import (
    aliases_document,
    artifact_document,
    kin_document,
    objects_document,
    version_document,
)

ROUTES = "/v1/registry/datasets"


def dataset_version(version: Version) -> dict[str, Any]:
    """A dataset's version and what it holds."""
    return version_document(version) | counts(queries.example_set(version)) | {
        "objects": objects_document(version, ROUTES)} | kin_document(version)


def dataset_summaries(versions: Collection[Version]) -> list[dict[str, Any]]:
    """Versions of datasets as a list shows them."""
    sets = queries.example_sets(versions)
    whole = (version_document(version) | counts(sets[version.pk]) for version in versions)
    return [{key: value for key, value in document.items() if key not in {"statistics", "findings"}}
            for document in whole]


def counts(examples: ExampleSet) -> dict[str, Any]:
    """How much a set of examples holds; `toolRows` is null where it was never counted, `pairCount` but for pairs.

    `details` is what only its format has.
    """
    return {"exampleCount": examples.num_examples,
            "pairCount": examples.num_examples if examples.format == PREFERENCE else None,
            "details": shown_details(examples.details), "toolRows": examples.num_tool_rows,
            "imageCount": examples.num_images, "blankLines": examples.num_blank_lines,
            "sizeBytes": examples.size_bytes, "statistics": examples.statistics, "findings": examples.findings}


def registered(done: Registered) -> dict[str, Any]:
    """What registering gave: the version, whether it is new, and what was noticed about the very file that was sent."""
    about = {} if done.sent is None else {"findings": done.sent.facts.findings,
                                          "blankLines": done.sent.num_blank_lines}
    return dataset_version(done.version) | about | {"isNew": done.is_new}


def named_dataset(artifact: Artifact) -> dict[str, Any]:
    """A named dataset: its aliases, and its versions newest first."""
    return artifact_document(artifact) | {"aliases": aliases_document(listed(artifact)),
                                          "versions": dataset_summaries(list(list_versions(artifact)))}


def listed_dataset(artifact: Any) -> dict[str, Any]:
    """A row of `queries.list_datasets`."""
    return artifact_document(artifact) | {
        "versionCount": artifact.num_versions, "latest": f"v{artifact.newest_number}",
        "contentHash": artifact.newest_hash, "exampleCount": artifact.num_examples, "sizeBytes": artifact.size_bytes,
        "updatedAt": artifact.newest_at}


def named(version: Version) -> dict[str, Any]:
    """A version in the bare-name form: its hash, and every name and reference of the same examples."""
    names, references = queries.names_of(version.content_hash)
    return {"hash": version.content_hash, "names": names, "references": references} | dataset_version(version)


def example_set(examples: Any) -> dict[str, Any]:
    """A row of `queries.list_example_sets`."""
    return {"hash": examples.pk, "names": examples.names, "references": examples.references,
            "exampleCount": examples.num_examples, "format": examples.format, "sizeBytes": examples.size_bytes,
            "createdBy": examples.created_by, "createdAt": examples.created_at}


def listed_upload(upload: Upload) -> dict[str, Any]:
    """An upload in shards, without them."""
    return {"id": upload.pk, "phase": upload.phase, "reference": upload.reference, "alias": upload.alias,
            "format": upload.format, "description": upload.description, "shardCount": len(upload.planned),
            "sizeBytes": sum(item["bytes"] for item in upload.planned), "versionId": upload.version_id or None,
            "createdBy": upload.created_by, "createdAt": upload.created_at, "expiresAt": upload.expires_at}


def upload(upload: Upload) -> dict[str, Any]:
    """An upload with its shards; `missing` is what is still to be sent, by path."""
    missing = [item["path"] for item in upload_queries.lacking(upload)]
    return listed_upload(upload) | {"shards": upload_queries.listing(upload), "missing": missing,
                                    "namesImages": upload_queries.names_images(upload)}
