"""What a person changes on the page of a version, of whatever kind: where an alias points, and the note on it.

Each takes the version that the page shows, and the address of the page, to which the browser goes back.
"""

from django.contrib import messages
from django.http import HttpResponse

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.refusals import go
from registry.models import Version
from registry.operations import artifacts


def point_alias(request: HtmxRequest, version: Version, page: str) -> HttpResponse:
    """Point the alias that was sent at the version."""
    alias = artifacts.set_alias(version.artifact, _alias(request), version, actor=actor_of(request))
    messages.success(request, f"{alias.name} points at v{version.number}.", extra_tags="good")
    return go(request, page)


def take_alias(request: HtmxRequest, version: Version, page: str) -> HttpResponse:
    """Take the alias that was sent away; versions stay."""
    alias = _alias(request)
    artifacts.remove_alias(version.artifact, alias, actor=actor_of(request))
    messages.success(request, f"{alias} points at nothing any more.", extra_tags="good")
    return go(request, page)


def keep_note(request: HtmxRequest, version: Version, page: str) -> HttpResponse:
    """Set the note on the version; an empty one clears it."""
    noted = artifacts.annotate_version(version, description=request.POST.get("description", "").strip(),
                                       actor=actor_of(request))
    messages.success(request, f"The note on v{noted.number} is kept.", extra_tags="good")
    return go(request, page)


def _alias(request: HtmxRequest) -> str:
    return str(request.POST.get("alias", "")).strip()
