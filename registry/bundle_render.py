"""Bundles as documents."""

from typing import Any

from optimize_site.kernel.archives import list_archive
from optimize_site.kernel.blobs import blob_path
from registry import render
from registry.models import Artifact, Version
from registry.operations.bundles import Registered
from registry.queries import list_versions, listed

ROUTES = "/v1/registry/bundles"


def bundle_row(artifact: Any) -> dict[str, Any]:
    """A row of `list_artifacts`."""
    return render.artifact_document(artifact) | {
        "versions": artifact.num_versions, "latest": f"{artifact.reference}:v{artifact.newest_number}",
        "hash": artifact.newest_hash, "aliases": render.aliases_document(artifact)}


def version_row(version: Version) -> dict[str, Any]:
    """A row of a list of versions."""
    return render.version_document(version) | {"hash": version.content_hash, "sizeBytes": size_of(version)}


def bundle_document(artifact: Artifact) -> dict[str, Any]:
    """A named bundle: versions newest first, and aliases."""
    return bundle_row(listed(artifact)) | {"versions": [version_row(version) for version in list_versions(artifact)]}


def version_document(version: Version) -> dict[str, Any]:
    """One version with the files in it."""
    return version_row(version) | render.kin_document(version) | {
        "files": files_of(version), "objects": render.objects_document(version, ROUTES),
        "download": f"{ROUTES}/{version.artifact.reference}/versions/v{version.number}/bundle.zip"}


def registered_document(done: Registered) -> dict[str, Any]:
    """What registering gave."""
    return version_document(done.version) | {"isNew": done.is_new}


def files_of(version: Version) -> list[dict[str, Any]]:
    """The files of a bundle, read from its archive."""
    return [{"path": entry.path, "bytes": entry.size_bytes} for entry in list_archive(blob_path(version.content_hash))
            if not entry.is_folder]


def size_of(version: Version) -> int:
    """How large a bundle's archive is."""
    return sum(item["bytes"] for item in version.objects_listing)
