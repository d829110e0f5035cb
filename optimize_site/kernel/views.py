"""Pages of the box itself: sign-in, home, search, the box, the docs, and the stream that says "look again"."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from optimize_site.kernel import box, docs, feeds, services, sign_in
from optimize_site.kernel.bell import EVERYTHING, bell
from optimize_site.kernel.htmx import HtmxRequest

SAME_REFUSAL = "That name and password do not go together."
PING_SECONDS, LEAST_GAP_SECONDS = 15.0, 0.4


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_page(request: HtmxRequest) -> HttpResponse:
    """Sign in by name and password; after several failures a wait."""
    after = _safe_next(request)
    if request.method != "POST":
        return redirect(after) if request.user.is_authenticated else render(request, "login.html", {"next": after})
    username = request.POST.get("username", "")[:150]
    wait = sign_in.seconds_to_wait(request, username)
    if wait:
        return _sign_in_again(request, after, username, f"Too many tries. Wait {wait} seconds, then try again.", 429)
    user = authenticate(request, username=username, password=request.POST.get("password", ""))
    sign_in.note(request, username, succeeded=user is not None)
    if user is None:
        return _sign_in_again(request, after, username, SAME_REFUSAL, 401)
    login(request, user)
    return redirect(after)


def _sign_in_again(request: HtmxRequest, after: str, username: str, refusal: str, status: int) -> HttpResponse:
    return render(request, "login.html", {"next": after, "username": username, "refusal": refusal}, status=status)


def _safe_next(request: HtmxRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    return wanted if url_has_allowed_host_and_scheme(wanted, {request.get_host()}) else "/"


@require_POST
def sign_out(request: HtmxRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect("box:sign-in")


@require_GET
def favicon(request: HtmxRequest) -> HttpResponse:
    """Where browsers look without being told."""
    return redirect(static("favicon.svg"))


@require_GET
def home(request: HtmxRequest) -> HttpResponse:
    """What the box is doing, and whether it needs anybody."""
    template = "home.html#live" if request.htmx else "home.html"
    checklist = feeds.items("checklist")
    lists = {place: feeds.items(place) for place in ("now", "waiting", "attention", "promoted")}
    next_step = next((item.title for item in checklist if not item.is_done), "")
    return render(request, template, lists | {"checklist": checklist, "next_step": next_step,
                                              "warnings": box.capacity()["warnings"]})


@require_GET
def search(request: HtmxRequest) -> HttpResponse:
    """Whatever a name or the beginning of an ID may mean; straight there where it is only one thing."""
    query = request.GET.get("q", "").strip()[:200]
    found = feeds.find(query)
    if len(found) == 1:
        return redirect(found[0].url)
    return render(request, "search.html", {"query": query, "found": found})


@require_GET
def box_page(request: HtmxRequest) -> HttpResponse:
    """Devices and who holds them, what waits, disk, services, versions."""
    template = "box.html#live" if request.htmx else "box.html"
    info = box.describe()
    info["used_share"] = 1 - info["disk"]["freeBytes"] / info["disk"]["totalBytes"]
    return render(request, template, {"info": info, "capacity": box.capacity(),
                                      "services": services.list_services(), "logs": services.list_logs(),
                                      "waiting": feeds.items("waiting"), "base_models": feeds.items("base-models")})


@require_GET
def log_page(request: HtmxRequest, name: str) -> HttpResponse:
    """The end of one service's log."""
    text = services.read_log(name)
    if text is None:
        raise Http404
    template = "log.html#log" if request.htmx else "log.html"
    return render(request, template, {"name": name, "text": text})


@require_GET
def docs_page(request: HtmxRequest, name: str = "") -> HttpResponse:
    """One page of the documentation beside the list of all."""
    pages = docs.list_pages()
    name = name or (pages[0].name if pages else "")
    found = docs.read_page(name.removesuffix(".md"))
    if found is None:
        raise Http404
    # The text is the project's own, and render_markdown lets no HTML of it through.
    body = mark_safe(found[1])  # noqa: S308
    return render(request, "docs.html", {"pages": pages, "name": name, "heading": found[0], "body": body})


@require_GET
def docs_image(request: HtmxRequest, name: str) -> HttpResponse:
    """A picture of the documentation, which every page of it names as `images/NAME`."""
    found = docs.read_image(name)
    if found is None:
        raise Http404
    return HttpResponse(found[1], content_type=found[0])


async def changes(request: HtmxRequest, kind: str = "", subject: str = "") -> HttpResponseBase:
    """Server-sent `changed` events: one at once, one after each change of the subject (or of anything)."""
    if not isinstance(request, ASGIRequest):
        return HttpResponse(status=204)  # a server that cannot stream; pages poll
    stream = _changes(f"{kind}:{subject}" if kind else EVERYTHING)
    headers: dict[str, Any] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(stream, content_type="text/event-stream", headers=headers)


async def _changes(subject: str) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    async for heard in bell().rings(subject, PING_SECONDS):
        yield "event: changed\ndata: look\n\n" if heard else ": still here\n\n"
        await asyncio.sleep(LEAST_GAP_SECONDS)
