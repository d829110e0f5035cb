"""The list of datasets, and the upload of a file."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from datasets import queries
from datasets.forms import read_upload
from datasets.operations import Registered, register_dataset
from datasets.upload_queries import limits, list_uploads
from datasets.views.addresses import address_of
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, wants_archived
from optimize_site.kernel.refusals import go
from registry.queries import resolve_version

SHOWN_UPLOADS = 5


@require_GET
def dataset_list(request: HtmxRequest) -> HttpResponse:
    """Every named dataset."""
    archived = wants_archived(request)
    page = listed(request, queries.list_datasets(archived=archived))
    return render(request, "datasets/list.html", page | {"archived": archived})


@require_http_methods(["GET", "HEAD", "POST"])
def upload(request: HtmxRequest) -> HttpResponse:
    """Register a file of chat rows; a refusal stands beside the form, line by line."""
    most = limits()
    context: dict[str, Any] = {
        "reference": request.GET.get("reference", ""), "alias": "", "description": "", "limits": most,
        "whole": most["maxShards"] * most["maxShardBytes"],
        "stopped": list_uploads().filter(created_by=actor_of(request).name)[:SHOWN_UPLOADS]}
    if request.GET.get("done"):
        version = resolve_version(queries.KIND, request.GET["done"])
        return _done(request, Registered(version, queries.example_set(version), is_new="new" in request.GET))
    if request.method != "POST":
        return render(request, "datasets/upload.html", context)
    context |= {name: request.POST.get(name, "") for name in ("reference", "alias", "description")}
    try:
        form = read_upload(request)
        done = register_dataset(form.reference, form.file.chunks(), actor=actor_of(request), alias=form.alias,
                                description=form.description, length=form.file.size)
    except OperationError as error:
        template = "datasets/upload.html#form" if request.htmx else "datasets/upload.html"
        return render(request, template, context | {"error": error}, status=error.status)
    return _done(request, done)


def _done(request: HtmxRequest, done: Registered) -> HttpResponse:
    """Say on the dataset's page what an upload came to."""
    words = "is registered" if done.is_new else "held these examples already; nothing was added"
    messages.success(request, f"{done.version.reference} {words}.", extra_tags="good")
    return go(request, address_of(done.version))


@require_GET
def version_page(request: HtmxRequest, version_id: str) -> HttpResponse:
    """From a version's ID, hash or reference to its page, or to the part of it that the query names."""
    part = {key: request.GET[key] for key in ("tab", "offset", "q", "other") if key in request.GET}
    return redirect(address_of(resolve_version(queries.KIND, version_id), **part))
