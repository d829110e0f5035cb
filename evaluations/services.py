"""Graders that are services: which may be asked, as the operator stated it."""

from typing import Any

from evaluations.errors import HostNotAllowed
from evaluations.scoring.addresses import BadService, Service, find_allowed, read_service
from evaluations.scoring.headers import headers_of
from optimize_site.kernel.conf import setting
from optimize_site.kernel.graders import MalformedGrader, Target


def canonical_service(target: Target, namespace: str) -> str:
    """The one text of an `http:URL` grader; a service belongs to no namespace. Raises MalformedGrader, HostNotAllowed.

    Nothing is looked up or asked: where the host leads is seen when it scores.
    """
    service = service_of(target)
    try:
        find_allowed(service, setting("trainer.graders.http-hosts"))
        headers_of(service, setting("trainer.graders.http-headers"))
    except BadService as error:
        raise HostNotAllowed(error.detail, hint=error.hint) from error
    return f"http:{service.url}"


def service_of(target: Target) -> Service:
    """Where the grader sends answers. Raises MalformedGrader."""
    try:
        return read_service(target.target)
    except BadService as error:
        raise MalformedGrader(error.detail, hint=error.hint) from error


def service_facts(target: Target) -> dict[str, Any]:
    """What a service's grader goes by."""
    service = service_of(target)
    return {"url": service.url, "host": service.authority, "encrypted": service.scheme == "https",
            "headers": [header.name for header in headers_of(service, setting("trainer.graders.http-headers"))],
            "seconds": float(setting("trainer.graders.seconds"))}
