"""Assembles the REST API under /v1 from the apps' routers, and turns every error into a problem document."""

import json
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from django.db import DataError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from optimize_site.kernel.api import AUTH
from optimize_site.kernel.auth import STRANGER, STRANGER_HINT, actor_of_token
from optimize_site.kernel.errors import (
    Forbidden,
    InvalidInput,
    NotAuthenticated,
    NotFound,
    OperationError,
    Problem,
    Unavailable,
)

ROUTERS = (
    ("/training", "optimize_site.kernel.box_api"),
    ("/box", "optimize_site.kernel.accounts_api"),
    ("/training/base-models", "registry.base_models_api"),
    ("/training/workloads", "registry.workloads_api"),
    ("/training/workloads", "evaluations.workloads_api"),
    ("/training/projects", "registry.workloads_api"),
    ("/training/projects", "evaluations.workloads_api"),
    ("/training/runs", "runs.api"),
    ("/training/evaluations", "evaluations.api"),
    ("/training/trials", "endpoints.api"),
    ("/registry", "registry.api"),
    ("/registry/datasets", "datasets.api"),
    ("/registry/models", "registry.models_api"),
    ("/datasets", "datasets.named_api"),
)



def known_only(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The API's description is for those who may call it."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        header = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if request.user.is_authenticated or (header and actor_of_token(header)):
            return view(request, *args, **kwargs)
        return problem(NotAuthenticated(STRANGER, hint=STRANGER_HINT))

    return checked


def problem(error: OperationError) -> HttpResponse:
    """The response that says why an operation did not happen."""
    return HttpResponse(json.dumps(error.document(), default=str), status=error.status,
                        content_type="application/problem+json")


api = NinjaAPI(title="Optimize", version="1", auth=AUTH, urls_namespace="v1", docs_url=None,
               openapi_url="/openapi.json", docs_decorator=known_only)


@api.exception_handler(OperationError)
def refused(request: HttpRequest, error: OperationError) -> HttpResponse:
    return problem(error)


@api.exception_handler(OperationalError)
def without_database(request: HttpRequest, error: OperationalError) -> HttpResponse:
    return problem(Unavailable("The box's database does not answer.", hint="Start the box with `./optimize up`.",
                               code="box_is_down"))


@api.exception_handler(DataError)
def unkept(request: HttpRequest, error: DataError) -> HttpResponse:
    return problem(InvalidInput("The request holds a value that the database cannot keep, such as the character U+0000 "
                                "or a number beyond its range.", code="value_out_of_range"))


@api.exception_handler(AuthenticationError)
def stranger(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return problem(NotAuthenticated(STRANGER, hint=STRANGER_HINT))


@api.exception_handler(Http404)
def absent(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem(NotFound("There is nothing at this address."))


@api.exception_handler(HttpError)
def unreadable(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 403:
        return problem(Forbidden("The request did not carry this page's CSRF token.", code="csrf_failed",
                                 hint="Load the page again; programs send a bearer token instead of a session."))
    return problem(InvalidInput(f"The request could not be read: {error}."))


@api.exception_handler(ValidationError)
def malformed(request: HttpRequest, error: ValidationError) -> HttpResponse:
    problems = [Problem(_path(item["loc"]), item["type"], item["msg"]) for item in error.errors]
    first = problems[0]
    return problem(InvalidInput(f"{first.path}: {first.message}." if problems else "The request is malformed.",
                                problems=problems))


def _path(location: Any) -> str:
    return ".".join(str(part) for part in location if part not in {"body", "query", "path", "payload"}) or "body"


for prefix, module in ROUTERS:
    alias = prefix == "/training/projects"
    router = import_module(module).router
    if alias:
        router = import_module(module).make_router()
    api.add_router(prefix, router)
