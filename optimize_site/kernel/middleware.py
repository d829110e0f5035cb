"""The stranger's door: everything but sign-in, health and static files needs a session or a token."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

OPEN_PATHS = ("/login", "/healthz", "/readyz", "/static/", "/admin/login/", "/favicon.ico")
API_PATHS = ("/v1/",)
POLICY = ("default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; "
          "frame-ancestors 'none'; base-uri 'self'; form-action 'self'")
ADMIN_POLICY = POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-inline' 'unsafe-eval'")


class Middleware:
    """A middleware with one `process_view`-like gate, for both worlds: `refuse` returns a response or None."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]):
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if iscoroutinefunction(self):
            return self._async_call(request)
        return self.finish(request, self.get_response(request))

    async def _async_call(self, request: HttpRequest) -> Any:
        return self.finish(request, await self.get_response(request))

    def finish(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        return response


class SignedInOnly(Middleware):
    """Sends a stranger to the sign-in page; the API answers for itself with 401."""

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        path = request.path
        if path.startswith(OPEN_PATHS) or path.startswith(API_PATHS) or request.user.is_authenticated:
            return None
        if path == "/metrics":
            return None  # the view takes a bearer token too
        if getattr(request, "htmx", False):
            return HttpResponse(status=401, headers={"HX-Redirect": f"{settings.LOGIN_URL}?next=/"})
        return redirect(f"{settings.LOGIN_URL}?next={quote(request.get_full_path())}")


class ContentSecurityPolicy(Middleware):
    """Scripts come from this box only."""

    def finish(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        policy = ADMIN_POLICY if request.path.startswith("/admin") else POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        return response


def box_context(request: HttpRequest) -> dict[str, Any]:
    """What every template may use: the role of the signed-in person and whether it may change things."""
    user = getattr(request, "user", None)
    role = getattr(user, "role", "") if user is not None and user.is_authenticated else ""
    return {"role": role, "may_operate": role in {"operator", "admin"}, "is_admin": role == "admin"}
