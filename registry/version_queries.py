"""Finds the version of an artifact that a reference names."""

import re

from optimize_site.kernel.errors import AmbiguousPrefix
from registry.models import Version

REFERENCE = re.compile(r"(?:(?P<space>[a-z0-9._-]+)/)?(?P<name>[a-z0-9._-]+)"
                       r"(?::(?P<at>[a-z0-9._-]+)|@sha256:(?P<digest>[0-9a-f]{64}))?")


def find_version(text: str, *, kind: str, namespace: str = "") -> Version | None:
    """`NS/NAME[:vN|:ALIAS]`, `NS/NAME@sha256:…`, or a bare name in `namespace`; None where there is none."""
    found = REFERENCE.fullmatch(text.lower())
    if found is None:
        return None
    space, at = found["space"] or namespace, found["at"]
    versions = Version.objects.filter(artifact__kind=kind, artifact__name=found["name"])
    versions = versions.select_related("artifact__namespace").order_by("-number")
    versions = versions.filter(artifact__namespace=space) if space else versions
    if versions.order_by().values("artifact").distinct().count() > 1:
        raise AmbiguousPrefix(f"{text!r} is a {kind} in several namespaces.", hint="Write NAMESPACE/NAME.")
    if found["digest"]:
        return versions.filter(digest=found["digest"]).first()
    if at and re.fullmatch(r"v\d+", at):
        return versions.filter(number=int(at[1:])).first()
    return versions.filter(aliases__name=at).first() if at and at != "latest" else versions.first()
