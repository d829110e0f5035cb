"""Registering bundles: ZIPs of code and data, kept byte for byte once their structure was looked through."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from optimize_site.kernel.archives import Limits, examine_archive, limited
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import hold, put_stream
from optimize_site.kernel.conf import setting
from optimize_site.kernel.models import Blob
from registry.errors import BundleUnknown
from registry.models import Artifact, Version
from registry.operations.artifacts import NewVersion, register_version
from registry.operations.namespaces import check_open
from registry.queries import CURRENT
from registry.references import DEFAULT_NAMESPACE, parse_alias, parse_artifact, parse_digest, part

KIND = Artifact.Kind.BUNDLE
FORMAT, FILE = "bundle-zip-v1", "bundle.zip"


@dataclass(frozen=True)
class Registered:
    """A bundle's version, and whether it is new."""

    version: Version
    is_new: bool


def limits() -> Limits:
    """How large a bundle may be."""
    return Limits(int(setting("registry.bundles.max-bytes")), int(setting("registry.bundles.max-unpacked-bytes")))


def register_bundle(reference: str, chunks: Iterable[bytes], *, alias: str = "", description: str = "",
                    lineage: dict[str, Any] | None = None, actor: Actor) -> Registered:
    """Register a ZIP, given as its bytes in order, as the next version of the bundle `NS/NAME`.

    The same bytes under the same name give the version there is. What the code in it does is its users' business;
    nothing is kept of an archive whose structure is refused. Raises ArchiveRefused, TooLarge, InvalidReference,
    ReservedAlias, NamespaceArchived.
    """
    actor.require("operator")
    _check(reference, alias)
    most = limits()
    blob = put_stream(limited(chunks, most.max_bytes), check=lambda path: examine_archive(path, most))
    return _append(reference, blob, alias, description, lineage, actor)


@transaction.atomic
def register_held_bundle(reference: str, sha256: str, *, alias: str = "", description: str = "",
                         lineage: dict[str, Any] | None = None, actor: Actor) -> Registered:
    """Register bytes that a bundle on this box holds already, so that they need not be sent. Raises BundleUnknown."""
    actor.require("operator")
    _check(reference, alias)
    digest = parse_digest(f"sha256:{sha256.removeprefix('sha256:')}")
    is_bundle = Version.objects.filter(artifact__kind=KIND, content_hash=digest).exists()
    if not is_bundle or digest not in hold([digest]):
        raise BundleUnknown(f"No bundle on this box holds the bytes {digest[:12]}.", hint="Send them.")
    return _append(reference, Blob.objects.get(pk=digest), alias, description, lineage, actor)


def name_of(stated: str, sha256: str) -> str:
    """Where a bundle goes that is pushed without a namespace: under a bare name, else under its own hash."""
    return f"{DEFAULT_NAMESPACE}/{part(stated, 'name', stated) if stated else sha256}"


def push_bundle(name: str, chunks: Iterable[bytes], *, actor: Actor) -> Registered:
    """Register a ZIP under its hash, and under the bare `name` where one is given, moved to it where another bundle
    had it. Raises as `register_bundle`.
    """
    actor.require("operator")
    if name:
        part(name, "name", name)
    check_open(DEFAULT_NAMESPACE)
    most = limits()
    blob = put_stream(limited(chunks, most.max_bytes), check=lambda path: examine_archive(path, most))
    return _append(name_of(name, blob.sha256), blob, CURRENT, "", None, actor)


def push_held_bundle(name: str, sha256: str, *, actor: Actor) -> Registered:
    """`push_bundle` for bytes that a bundle on this box holds already. Raises BundleUnknown."""
    return register_held_bundle(name_of(name, sha256), sha256, alias=CURRENT, actor=actor)


def _check(reference: str, alias: str) -> None:
    check_open(parse_artifact(reference).namespace)
    if alias:
        parse_alias(alias)


def _append(reference: str, blob: Blob, alias: str, description: str, lineage: dict[str, Any] | None,
            actor: Actor) -> Registered:
    objects = [{"path": FILE, "sha256": blob.sha256, "bytes": blob.size_bytes}]
    new = NewVersion(FORMAT, objects, content_hash=blob.sha256, lineage=lineage or {}, description=description)
    return Registered(*register_version(KIND, reference, new, actor=actor, alias=alias))
