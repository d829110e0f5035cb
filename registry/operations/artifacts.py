"""Appending versions to named artifacts, and moving the aliases that point at them."""

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from optimize_site.kernel import events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import NotFound
from optimize_site.kernel.hashing import sha256_json
from registry.models import Alias, AliasMove, Artifact, Namespace, Version
from registry.queries import get_alias
from registry.references import Reference, parse_alias, parse_artifact


@dataclass(frozen=True)
class NewVersion:
    """What a version holds. `objects` lists `{"path", "sha256", "bytes"}`; `content_hash` defaults to the digest."""

    format: str
    objects: list[dict[str, Any]] = field(default_factory=list)
    content_hash: str = ""
    descriptor: dict[str, Any] = field(default_factory=dict)
    lineage: dict[str, Any] = field(default_factory=dict)
    produced_by_kind: str = ""
    produced_by_id: str = ""
    description: str = ""

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
    ReservedAlias.
    """
    actor.require("operator")
    alias = parse_alias(alias) if alias else ""
    artifact = _lock_artifact(kind, parse_artifact(reference), actor)
    version = artifact.versions.filter(digest=new.digest).select_related("artifact__namespace").first()
    is_new = version is None
    if version is None:
        version = _append(artifact, new, actor)
    if alias:
        _point(artifact, alias, version, actor)
    return version, is_new


def _lock_artifact(kind: str, reference: Reference, actor: Actor) -> Artifact:
    """The artifact, locked until the transaction ends, so that versions are numbered one at a time."""
    namespace, _ = Namespace.objects.get_or_create(name=reference.namespace, defaults={"created_by": actor.name})
    artifact, _ = Artifact.objects.get_or_create(kind=kind, namespace=namespace, name=reference.name)
    return Artifact.objects.select_for_update().get(pk=artifact.pk)


def _append(artifact: Artifact, new: NewVersion, actor: Actor) -> Version:
    newest = artifact.versions.order_by("-number").values_list("number", flat=True).first()
    version = Version.objects.create(
        artifact=artifact, number=(newest or 0) + 1, digest=new.digest, content_hash=new.content_hash or new.digest,
        format=new.format, descriptor=new.descriptor, objects_listing=new.objects, lineage=new.lineage,
        produced_by_kind=new.produced_by_kind, produced_by_id=new.produced_by_id, description=new.description,
        created_by=actor.name)
    events.record(artifact.kind, version.pk, f"{artifact.kind}.registered", actor=actor,
                  data={"reference": version.reference, "digest": version.digest})
    return version


@transaction.atomic
def set_alias(artifact: Artifact, name: str, version: Version, *, actor: Actor) -> Alias:
    """Point an alias at a version of its artifact; pointing it where it points changes nothing.

    Raises NotFound for another artifact's version, ReservedAlias, InvalidReference.
    """
    actor.require("operator")
    if version.artifact_id != artifact.pk:
        raise NotFound(f"{artifact.reference} holds no version {version.reference}.", code="unknown_reference",
                       hint="An alias points at a version of its own artifact.")
    locked = Artifact.objects.select_for_update().get(pk=artifact.pk)
    return _point(locked, parse_alias(name), version, actor)


def _point(artifact: Artifact, name: str, version: Version, actor: Actor) -> Alias:
    alias = artifact.aliases.filter(name=name).first()
    if alias is not None and alias.version_id == version.pk:
        return alias
    epoch = alias.epoch if alias is not None else _epochs_closed(artifact, name) + 1
    alias, _ = Alias.objects.update_or_create(artifact=artifact, name=name,
                                              defaults={"version": version, "epoch": epoch})
    AliasMove.objects.create(artifact=artifact, name=name, version=version, epoch=epoch, actor=actor.name)
    events.record(artifact.kind, version.pk, "alias.set", actor=actor,
                  data={"alias": f"{artifact.reference}:{name}", "version": f"v{version.number}"})
    return alias


def _epochs_closed(artifact: Artifact, name: str) -> int:
    return artifact.alias_moves.filter(name=name, version=None).count()


@transaction.atomic
def remove_alias(artifact: Artifact, name: str, *, actor: Actor) -> None:
    """Take an alias away; versions stay, and so does its history. Raises UnknownVersion, ReservedAlias."""
    actor.require("operator")
    Artifact.objects.select_for_update().get(pk=artifact.pk)
    alias = get_alias(artifact, parse_alias(name))
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
