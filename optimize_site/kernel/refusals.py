"""Shows an operation's refusal in the page it came from, or as a page of its own: the API's words, the API's status."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.http import HttpResponseClientRedirect, reswap, retarget

from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.middleware import API_PATHS, Middleware

IN_PLACE = "#refusal"


class RefusalPages(Middleware):
    """Turns an OperationError that a view raised into what the person sees."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, OperationError) or request.path.startswith(API_PATHS):
            return None
        return show_refusal(request, exception)


def show_refusal(request: HttpRequest, error: OperationError) -> HttpResponse:
    """The refusal beside what was asked (HTMX), or on a page with a way back."""
    if getattr(request, "htmx", False):
        response = render(request, "partials/refusal.html", {"error": error}, status=error.status)
        return reswap(retarget(response, IN_PLACE), "innerHTML")
    return render(request, "refused.html", {"error": error, "back": came_from(request)}, status=error.status)


def came_from(request: HttpRequest) -> str:
    """The page of this box that sent the request, or home."""
    address = request.headers.get("Referer", "")
    known = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if known else "/"


def go(request: HttpRequest, address: str) -> HttpResponse:
    """Send the browser to a page once an operation is done."""
    return HttpResponseClientRedirect(address) if getattr(request, "htmx", False) else redirect(address)
