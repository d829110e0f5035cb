"""Shows an operation's refusal in the page it came from, or as a page of its own: the API's words, the API's status."""

from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.http import HttpResponseClientRedirect, reswap, retarget

from optimize_site.kernel.errors import InvalidInput, OperationError
from optimize_site.kernel.middleware import API_PATHS, Middleware

IN_PLACE = "#refusal"


class RefusalPages(Middleware):
    """Turns an error that a view raised, where it is a refusal, into what the person sees."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if request.path.startswith(API_PATHS):
            return None
        if isinstance(exception, DataError):
            exception = unkept()
        return show_refusal(request, exception) if isinstance(exception, OperationError) else None


def unkept() -> InvalidInput:
    """The refusal of a value that the database did not take."""
    return InvalidInput("The request holds a value that the database cannot keep, such as the character U+0000 or a "
                        "number beyond its range.", hint="Take it out and send the request again.",
                        code="value_out_of_range")


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
