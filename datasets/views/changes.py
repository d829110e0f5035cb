"""What a person changes on a dataset's page: where an alias points, the note on a version; and an upload given up."""

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from datasets.operations import abandon_upload as give_up
from datasets.queries import KIND
from datasets.upload_queries import get_upload
from datasets.views.addresses import address_of
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.refusals import go
from registry.models import Version
from registry.queries import get_artifact, get_version
from registry.views.names import keep_note, point_alias, take_alias


@require_POST
def set_alias(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Point an alias at a version."""
    version = _sent_version(request, namespace, name)
    return point_alias(request, version, address_of(version, tab="versions"))


@require_POST
def remove_alias(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Take an alias away; versions stay."""
    version = _sent_version(request, namespace, name)
    return take_alias(request, version, address_of(version, tab="versions"))


@require_POST
def annotate(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Set the note on a version; an empty one clears it."""
    version = _sent_version(request, namespace, name)
    return keep_note(request, version, address_of(version, tab="versions"))


def _sent_version(request: HtmxRequest, namespace: str, name: str) -> Version:
    return get_version(get_artifact(KIND, f"{namespace}/{name}"), request.POST.get("version", ""))


@require_POST
def abandon_upload(request: HtmxRequest, upload_id: str) -> HttpResponse:
    """Give an upload that was stopped up."""
    upload = get_upload(upload_id)
    give_up(upload, actor=actor_of(request))
    messages.success(request, f"The upload of {upload.reference} was given up.", extra_tags="good")
    return go(request, reverse("datasets:upload"))
