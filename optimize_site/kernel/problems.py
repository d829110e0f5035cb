"""Problem documents as responses; under /v1 every failure is one, also where no route ever saw the request."""

import json

from django.http import HttpRequest, HttpResponse

from optimize_site.kernel.errors import InvalidInput, NotFound, OperationError
from optimize_site.kernel.middleware import API_PATHS, Middleware

PROBLEM = "application/problem+json"


class MethodNotAllowed(OperationError):
    code, status, exit_code, title = "method_not_allowed", 405, 2, "The address is not used this way"


class InternalError(OperationError):
    code, status, exit_code, title = "internal_error", 500, 1, "Something broke"


def problem(error: OperationError) -> HttpResponse:
    """The response that says why an operation did not happen."""
    return HttpResponse(json.dumps(error.document(), default=str), status=error.status, content_type=PROBLEM)


class ApiProblems(Middleware):
    """Puts a problem document in place of the plain answers that Django gives by itself."""

    def finish(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if not request.path.startswith(API_PATHS) or response.get("Content-Type") == PROBLEM:
            return response
        error = _error_of(request, response)
        if error is None:
            return response
        told = problem(error)
        if allowed := response.get("Allow"):
            told["Allow"] = allowed
        return told


def _error_of(request: HttpRequest, response: HttpResponse) -> OperationError | None:
    if response.status_code == 400:
        return InvalidInput("The request could not be read.", hint="It may be longer than this address takes, or name "
                            "a host that this box does not answer to (see web.allowed-hosts).")
    if response.status_code == 404:
        return NotFound("There is nothing at this address.", hint="`/v1/openapi.json` lists the routes.")
    if response.status_code == 405:
        return MethodNotAllowed(f"This address does not take {request.method}.", hint=f"It takes {response['Allow']}.")
    if response.status_code == 500:
        return InternalError("Something broke in the box.",
                             hint="The log has more: `./optimize logs web`, for a command `./optimize logs commands`.")
    return None
