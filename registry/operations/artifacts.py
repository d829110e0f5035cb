"""Appending versions to named artifacts, and moving the aliases that point at them.

`champion` on a model in a workload's namespace is a promotion, whichever way it is asked for.
"""

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from optimize_site.kernel import events, promotion
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import NotFound
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import new_id
from registry.errors import ChampionAlias
from registry.lineage import Lineage, resolve_lineage
from registry.models import Alias, AliasMove, Artifact, Namespace, Parent, Version, Workload, WorkloadReference
from registry.operations.namespaces import refuse_archived
from registry.queries import get_alias
from registry.references import Reference, parse_alias, parse_artifact

CHAMPION = WorkloadReference.Name.CHAMPION.value


@dataclass(frozen=True)
class NewVersion:
    """What a version holds. `objects` lists `{"path", "sha256", "bytes"}`; `content_hash` defaults to the digest,
    `version_id` to a random one.

    `lineage` is as `registry.lineage` reads it. A producer it names stands where `produced_by_kind` is empty.
    """

    format: str
    objects: list[dict[str, Any]] = field(default_factory=list)
    content_hash: str = ""
    descriptor: dict[str, Any] = field(default_factory=dict)
    lineage: dict[str, Any] = field(default_factory=dict)
    produced_by_kind: str = ""
    produced_by_id: str = ""
    description: str = ""
    version_id: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 over the object listing, and over the descriptor where there is one."""
        listing = sorted(self.objects, key=lambda item: str(item["path"]))
        return sha256_json({"descriptor": self.descriptor, "objects": listing} if self.descriptor else listing)


@transaction.atomic
def register_version(kind: str, reference: str, new: NewVersion, *, actor: Actor,
                     alias: str = "") -> tuple[Version, bool]:
    """Append a version to the artifact `NS/NAME`, which comes into being with its first; set `alias` on it.

    What the artifact already holds under the same digest is returned as it is, with False. Raises InvalidReference,
    ReservedAlias, NamespaceArchived, MalformedLineage, UnknownVersion for a parent that there is not.
    """
    actor.require("operator")
    alias = parse_alias(alias) if alias else ""
    artifact = _lock_artifact(kind, parse_artifact(reference), actor)
    version = artifact.versions.filter(digest=new.digest).select_related("artifact__namespace").first()
    is_new = version is None
    if version is None:
        refuse_archived(artifact.namespace)
        version = _append(artifact, new, resolve_lineage(new.lineage, artifact.namespace_id), actor)
    if alias:
        set_alias(artifact, alias, version, actor=actor)
    return version, is_new


def _lock_artifact(kind: str, reference: Reference, actor: Actor) -> Artifact:
    """The artifact, locked until the transaction ends, so that versions are numbered one at a time; its namespace too,
    so that none is added while it is being archived."""
    Namespace.objects.get_or_create(name=reference.namespace, defaults={"created_by": actor.name})
    namespace = Namespace.objects.select_for_update(no_key=True).get(pk=reference.namespace)
    artifact, _ = Artifact.objects.get_or_create(kind=kind, namespace=namespace, name=reference.name)
    locked = Artifact.objects.select_for_update().get(pk=artifact.pk)
    locked.namespace = namespace
    return locked


def _append(artifact: Artifact, new: NewVersion, lineage: Lineage, actor: Actor) -> Version:
    newest = artifact.versions.order_by("-number").values_list("number", flat=True).first()
    version = Version.objects.create(
        id=new.version_id or new_id(), artifact=artifact, number=(newest or 0) + 1, digest=new.digest,
        content_hash=new.content_hash or new.digest,
        format=new.format, descriptor=new.descriptor, objects_listing=new.objects, lineage=lineage.document,
        produced_by_kind=new.produced_by_kind or lineage.produced_by_kind,
        produced_by_id=new.produced_by_id or lineage.produced_by_id, description=new.description,
        created_by=actor.name)
    for parent in lineage.parents:
        parent.child = version
    Parent.objects.bulk_create(lineage.parents)
    events.record(artifact.kind, version.pk, f"{artifact.kind}.registered", actor=actor,
                  data={"reference": version.reference, "digest": version.digest})
    return version


@transaction.atomic
def set_alias(artifact: Artifact, name: str, version: Version, *, actor: Actor, note: str = "",
              force: bool = False) -> Alias:
    """Point an alias at a version of its artifact; pointing it where it points changes nothing.

    `note` and `force` are for a promotion. Raises NotFound for another artifact's version, ReservedAlias,
    InvalidReference, and what a promotion raises.
    """
    actor.require("operator")
    name = parse_alias(name)
    if version.artifact_id != artifact.pk:
        raise NotFound(f"{artifact.reference} holds no version {version.reference}.", code="unknown_reference",
                       hint="An alias points at a version of its own artifact.")
    workload = _judging_workload(artifact, name)
    if workload is None:
        return place_alias(artifact, name, version, actor=actor)
    promotion.promote(workload, version, actor=actor, note=note, force=force)
    return get_alias(artifact, CHAMPION)


def _judging_workload(artifact: Artifact, alias: str) -> Workload | None:
    """The workload whose champion an alias is; None for every other alias."""
    if alias != CHAMPION or artifact.kind != Artifact.Kind.MODEL:
        return None
    return Workload.objects.filter(namespace=artifact.namespace_id).first()


def place_alias(artifact: Artifact, name: str, version: Version, *, actor: Actor) -> Alias:
    """Write where an alias points, with its history and an event. The decision was made by the caller."""
    locked = Artifact.objects.select_for_update().get(pk=artifact.pk)
    alias = locked.aliases.filter(name=name).first()
    if alias is not None and alias.version_id == version.pk:
        return alias
    epoch = alias.epoch if alias is not None else _epochs_closed(locked, name) + 1
    alias, _ = Alias.objects.update_or_create(artifact=locked, name=name,
                                              defaults={"version": version, "epoch": epoch})
    AliasMove.objects.create(artifact=locked, name=name, version=version, epoch=epoch, actor=actor.name)
    events.record(locked.kind, version.pk, "alias.set", actor=actor,
                  data={"alias": f"{artifact.reference}:{name}", "version": f"v{version.number}"})
    return alias


def _epochs_closed(artifact: Artifact, name: str) -> int:
    return artifact.alias_moves.filter(name=name, version=None).count()


@transaction.atomic
def remove_alias(artifact: Artifact, name: str, *, actor: Actor) -> None:
    """Take an alias away; versions stay, and so does its history. Setting it again starts a new one.

    Raises UnknownVersion, ReservedAlias, ChampionAlias.
    """
    actor.require("operator")
    name = parse_alias(name)
    workload = _judging_workload(artifact, name)
    if workload is not None and workload.references.filter(name=CHAMPION, version__artifact=artifact).exists():
        raise ChampionAlias(f"{artifact.reference}:{CHAMPION} is the champion of the workload {workload.name}.",
                            hint=f"`./optimize workloads promote {workload.name} MODEL` puts another in its place.")
    drop_alias(artifact, name, actor=actor)


def drop_alias(artifact: Artifact, name: str, *, actor: Actor) -> None:
    """Write that an alias is gone, which closes its history. The decision was made by the caller."""
    Artifact.objects.select_for_update().get(pk=artifact.pk)
    alias = get_alias(artifact, name)
    AliasMove.objects.create(artifact=artifact, name=alias.name, version=None, epoch=alias.epoch, actor=actor.name)
    events.record(artifact.kind, alias.version_id, "alias.removed", actor=actor,
                  data={"alias": f"{artifact.reference}:{alias.name}"})
    alias.delete()


@transaction.atomic
def annotate_version(version: Version, *, description: str | None, actor: Actor) -> Version:
    """Set the note on a version; an empty text clears it, None leaves it. Its identity stays."""
    actor.require("operator")
    if description is not None and description != version.description:
        Version.objects.filter(pk=version.pk).update(description=description)
        version.description = description
        kind = version.artifact.kind
        events.record(kind, version.pk, f"{kind}.annotated", actor=actor, data={"description": description})
    return version
