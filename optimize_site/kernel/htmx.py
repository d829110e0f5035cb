"""The request as the pages see it."""

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


class HtmxRequest(HttpRequest):
    """A request that the HTMX middleware has looked at; `htmx` is true where a part of a page is asked for."""

    htmx: HtmxDetails
