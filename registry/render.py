"""The registry's rows as JSON documents."""

from collections.abc import Iterable
from typing import Any

from registry.lineage import Kin, ancestors_of, descendants_of
from registry.models import Alias, AliasMove, Artifact, Namespace, Version
from registry.references import LATEST

PREFIX = "sha256:"


def version_document(version: Version) -> dict[str, Any]:
    """What every kind of version says of itself."""
    artifact = version.artifact
    return {"reference": version.reference, "namespace": artifact.namespace_id, "name": artifact.name,
            "version": version.number, "versionId": version.pk, "digest": PREFIX + version.digest,
            "contentHash": version.content_hash, "format": version.format,
            "aliases": sorted(alias.name for alias in version.aliases.all()), "description": version.description,
            "lineage": version.lineage, "producedByKind": version.produced_by_kind,
            "producedById": version.produced_by_id, "createdBy": version.created_by, "createdAt": version.created_at,
            "isArchived": artifact.namespace.archived_at is not None}


def kin_document(version: Version) -> dict[str, Any]:
    """What a version came from (`parents`) and what came from it (`children`), the nearest first."""
    return {"parents": [_kin(kin) for kin in ancestors_of(version)],
            "children": [_kin(kin) for kin in descendants_of(version)]}


def _kin(kin: Kin) -> dict[str, Any]:
    version = kin.version
    return {"kind": kin.kind, "reference": kin.reference, "depth": kin.depth,
            "artifact": version.artifact.kind if version is not None else None,
            "versionId": version.pk if version is not None else None}


def objects_document(version: Version, routes: str) -> list[dict[str, Any]]:
    """A version's objects, each with the route under `routes` that gives its bytes."""
    address = f"{routes}/{version.artifact.reference}/versions/v{version.number}/objects"
    return [item | {"location": f"{address}/{item['path']}"} for item in version.objects_listing]


def artifact_document(artifact: Artifact) -> dict[str, Any]:
    """A named artifact by itself."""
    return {"reference": artifact.reference, "namespace": artifact.namespace_id, "name": artifact.name,
            "createdAt": artifact.created_at, "isArchived": artifact.namespace.archived_at is not None}


def alias_document(alias: Alias, moves: Iterable[AliasMove]) -> dict[str, Any]:
    """An alias, and where it pointed since it was set, oldest first."""
    return {"reference": f"{alias.version.artifact.reference}:{alias.name}", "alias": alias.name,
            "version": f"v{alias.version.number}", "versionReference": alias.version.reference,
            "history": [_move(move) for move in moves]}


def _move(move: AliasMove) -> dict[str, Any]:
    version = move.version
    return {"version": f"v{version.number}" if version is not None else None, "since": move.at, "by": move.actor}


def latest_document(artifact: Artifact, versions: Iterable[Version]) -> dict[str, Any]:
    """The computed alias `latest`: its history is the list of versions, oldest first."""
    listed = sorted(versions, key=lambda version: version.number)
    return {"reference": f"{artifact.reference}:{LATEST}", "alias": LATEST, "version": f"v{listed[-1].number}",
            "versionReference": listed[-1].reference,
            "history": [{"version": f"v{version.number}", "since": version.created_at, "by": version.created_by}
                        for version in listed]}


def aliases_document(artifact: Artifact) -> dict[str, str]:
    """The aliases of a listed artifact and the version each points at."""
    return {alias.name: f"v{alias.version.number}" for alias in artifact.aliases.all()}


def namespace_document(namespace: Namespace) -> dict[str, Any]:
    """A namespace, with counts where the query made them."""
    counts = {plural: getattr(namespace, f"num_{plural}") for plural in ("datasets", "models", "bundles")
              if hasattr(namespace, f"num_{plural}")}
    return {"name": namespace.name, "description": namespace.description, "createdBy": namespace.created_by,
            "createdAt": namespace.created_at, "isArchived": namespace.archived_at is not None, **counts}
