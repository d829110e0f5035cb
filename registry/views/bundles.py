"""Pages of bundles: the list, the upload, and one with the files in it."""

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import InvalidInput, OperationError
from optimize_site.kernel.feeds import Item, finder
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, wants_archived
from optimize_site.kernel.refusals import go
from registry.bundle_render import files_of, size_of
from registry.lineage import ancestors_of, descendants_of
from registry.models import Artifact, Version
from registry.operations.bundles import KIND, limits, register_bundle
from registry.queries import get_artifact, get_version, list_aliases, list_artifacts, list_versions, newest
from registry.views.kin import kin_rows
from registry.views.names import keep_note, point_alias, take_alias

FIELDS = ("reference", "alias", "description")


@require_GET
def bundle_list(request: HtmxRequest) -> HttpResponse:
    """Every named bundle."""
    archived = wants_archived(request)
    page = listed(request, list_artifacts(KIND, archived=archived))
    return render(request, "registry/bundles.html", page | {"archived": archived})


@require_http_methods(["GET", "HEAD", "POST"])
def upload(request: HtmxRequest) -> HttpResponse:
    """Register a ZIP; a refusal stands beside the form."""
    sent = request.POST if request.method == "POST" else request.GET
    values = {name: sent.get(name, "").strip() for name in FIELDS}
    context: dict[str, Any] = {"values": values, "limits": limits()}
    if request.method != "POST":
        return render(request, "registry/bundle_upload.html", context)
    try:
        actor = actor_of(request)
        actor.require("operator")
        file = request.FILES.get("file")
        if file is None:
            raise InvalidInput("No ZIP was sent, or it is larger than this box takes.", code="no_file",
                               hint="Choose a ZIP of the folder.")
        done = register_bundle(values["reference"], file.chunks(), alias=values["alias"],
                               description=values["description"], actor=actor)
    except OperationError as error:
        if error.status == 403:
            raise
        return render(request, "registry/bundle_upload.html", context | {"error": error}, status=error.status)
    words = "is registered" if done.is_new else "held these bytes already; nothing was added"
    messages.success(request, f"{done.version.reference} {words}.", extra_tags="good")
    return go(request, address_of(done.version))


@require_GET
def bundle(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """One bundle at one of its versions: the files in it, versions, aliases, lineage."""
    artifact = get_artifact(KIND, f"{namespace}/{name}")
    label = request.GET.get("version", "")
    version = get_version(artifact, label) if label else newest(artifact)
    if version is None:
        return redirect("registry:bundles")
    return render(request, "registry/bundle.html", {
        "artifact": artifact, "version": version, "versions": list_versions(artifact), "files": files_of(version),
        "aliases": list_aliases(artifact),
        "size_bytes": size_of(version), "ancestors": kin_rows(ancestors_of(version)),
        "descendants": kin_rows(descendants_of(version))})


@require_POST
def set_alias(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Point an alias at a version."""
    version = _sent_version(request, namespace, name)
    return point_alias(request, version, address_of(version))


@require_POST
def remove_alias(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Take an alias away; versions stay."""
    version = _sent_version(request, namespace, name)
    return take_alias(request, version, address_of(version))


@require_POST
def annotate(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Set the note on a version; an empty one clears it."""
    version = _sent_version(request, namespace, name)
    return keep_note(request, version, address_of(version))


def _sent_version(request: HtmxRequest, namespace: str, name: str) -> Version:
    return get_version(get_artifact(KIND, f"{namespace}/{name}"), request.POST.get("version", ""))


def address_of(version: Version) -> str:
    """The page of a bundle's version."""
    page = reverse("registry:bundle", args=[version.artifact.namespace_id, version.artifact.name])
    return f"{page}?version=v{version.number}"


@finder
def bundles_named(text: str) -> Iterator[Item]:
    """Bundles by part of their name, or by the beginning of a hash."""
    rows: Any = Artifact.objects.filter(kind=KIND).select_related("namespace")
    for artifact in rows.filter(name__icontains=text.lower().rpartition("/")[2].partition(":")[0])[:10]:
        found = newest(artifact)
        if found is not None and text.lower().rpartition("/")[0] in artifact.namespace_id:
            yield Item("Bundle", artifact.reference, address_of(found), at=found.created_at)
