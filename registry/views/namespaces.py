"""Pages of namespaces: the list, and one with what it holds."""

from collections.abc import Iterator

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.feeds import Item, finder
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, wants_archived
from optimize_site.kernel.refusals import go
from registry.models import Artifact, Namespace
from registry.operations import namespaces as operations
from registry.queries import get_namespace, list_artifacts, list_namespaces
from registry.references import shown

LISTED = 500
HEADINGS = ((Artifact.Kind.DATASET, "Datasets"), (Artifact.Kind.MODEL, "Models"), (Artifact.Kind.BUNDLE, "Bundles"))


@require_GET
def namespace_list(request: HtmxRequest) -> HttpResponse:
    """Namespaces with how much each holds."""
    archived = wants_archived(request)
    page = listed(request, list_namespaces(archived=archived))
    return render(request, "registry/namespaces.html", page | {"archived": archived})


@require_GET
def namespace(request: HtmxRequest, name: str) -> HttpResponse:
    """One namespace: its datasets, models and bundles, its workload, its note."""
    found = get_namespace(name)
    held = [{"title": title, "kind": kind, "rows": list_artifacts(kind, namespace=found.name)[:LISTED]}
            for kind, title in HEADINGS]
    return render(request, "registry/namespace.html", {
        "namespace": found, "held": held, "workload": found.workloads.first()})


@require_POST
def archive(request: HtmxRequest, name: str) -> HttpResponse:
    """Take it out of the lists."""
    done = operations.archive_namespace(get_namespace(name), actor=actor_of(request))
    return _said(request, done, f"{done.name} is archived; nothing can be registered in it until it is brought back.")


@require_POST
def unarchive(request: HtmxRequest, name: str) -> HttpResponse:
    """Bring it back."""
    done = operations.unarchive_namespace(get_namespace(name), actor=actor_of(request))
    return _said(request, done, f"{done.name} is open.")


@require_POST
def annotate(request: HtmxRequest, name: str) -> HttpResponse:
    """Set its note."""
    done = operations.annotate_namespace(get_namespace(name), description=request.POST.get("description"),
                                         actor=actor_of(request))
    return _said(request, done, "The note is saved.")


def _said(request: HtmxRequest, namespace: Namespace, words: str) -> HttpResponse:
    messages.success(request, words, extra_tags="good")
    return go(request, reverse("registry:namespace", args=[namespace.name]))


@finder
def namespaces_named(text: str) -> Iterator[Item]:
    """Namespaces by part of their name."""
    for found in list_namespaces(archived=True).filter(name__icontains=text.lower())[:5]:
        yield Item("Namespace", found.name, reverse("registry:namespace", args=[found.name]),
                   detail=shown(found.description) if found.description else "", at=found.created_at)
