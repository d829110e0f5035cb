"""The page of what nothing on the box refers to."""

from collections import Counter

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from optimize_site.kernel import clock
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.refusals import go
from registry.operations.garbage import collect_garbage, list_garbage

SHOWN = 200


@require_GET
def garbage(request: HtmxRequest) -> HttpResponse:
    """What a collection would remove, largest first."""
    found = list_garbage(actor=actor_of(request))
    rows = sorted(found.found, key=lambda waste: -waste.size_bytes)
    return render(request, "registry/garbage.html", {
        "rows": rows[:SHOWN], "total": len(rows), "size_bytes": found.size_bytes,
        "grace": (clock.now() - found.before).total_seconds(),
        "counts": Counter(waste.kind for waste in rows).most_common()})


@require_POST
def collect(request: HtmxRequest) -> HttpResponse:
    """Remove it."""
    done = collect_garbage(actor=actor_of(request))
    gone = len(done.found) - len(done.kept)
    messages.success(request, f"{gone} things are gone, {filesizeformat(done.size_bytes)} are free again.",
                     extra_tags="good")
    return go(request, reverse("registry:garbage"))
