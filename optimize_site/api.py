"""Assembles the REST API under /v1 from the apps' routers, and turns every error into a problem document."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from django.db import DataError, OperationalError
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from optimize_site.kernel.api import AUTH
from optimize_site.kernel.api_requests import StrictParser, refuse_what_is_not_read
from optimize_site.kernel.auth import STRANGER, STRANGER_HINT, actor_of_token
from optimize_site.kernel.errors import (
    Forbidden,
    InvalidInput,
    NotAuthenticated,
    OperationError,
    Problem,
    Unavailable,
)
from optimize_site.kernel.problems import problem
from optimize_site.kernel.refusals import unkept
from optimize_site.kernel.text import written_path

ROUTERS = (
    ("/training", "optimize_site.kernel.box_api"),
    ("/box", "optimize_site.kernel.accounts_api"),
    ("/training/base-models", "registry.base_models_api"),
    ("/training/workloads", "registry.workloads_api"),
    ("/training/workloads", "evaluations.workloads_api"),
    ("/training/projects", "registry.workloads_api"),
    ("/training/projects", "evaluations.workloads_api"),
    ("/training/runs", "runs.preview_api"),
    ("/training/runs", "runs.compare_api"),
    ("/training/runs", "runs.api"),
    ("/training/runs", "runs.branches_api"),
    ("/training/runs", "runs.rollouts_api"),
    ("/training/snapshots", "runs.snapshots_api"),
    ("/training/datasets/analyses", "runs.analyses_api"),
    ("/training/evaluations", "evaluations.api"),
    ("/training/evaluations", "evaluations.marks_api"),
    ("/training/graders", "evaluations.graders_api"),
    ("/training/pipelines", "evaluations.pipelines_api"),
    ("/training/comparisons", "evaluations.comparisons_api"),
    ("/training/trials", "endpoints.api"),
    ("/training/judges", "endpoints.judges_api"),
    ("/registry", "registry.api"),
    ("/registry/datasets", "datasets.api"),
    ("/registry/images", "datasets.images_api"),
    ("/registry/datasets", "datasets.rows_api"),
    ("/registry/dataset-uploads", "datasets.uploads_api"),
    ("/registry/models", "registry.models_api"),
    ("/registry/bundles", "registry.bundles_api"),
    ("/bundles", "registry.pushed_bundles_api"),
    ("/trained-models", "evaluations.trained_models_api"),
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


api = NinjaAPI(title="Optimize", version="1", auth=AUTH, urls_namespace="v1", docs_url=None,
               openapi_url="/openapi.json", docs_decorator=known_only, parser=StrictParser())


@api.exception_handler(OperationError)
def refused(request: HttpRequest, error: OperationError) -> HttpResponse:
    return problem(error)


@api.exception_handler(OperationalError)
def without_database(request: HttpRequest, error: OperationalError) -> HttpResponse:
    return problem(Unavailable("The box's database does not answer.", hint="Start the box with `./optimize up`.",
                               code="box_is_down"))


@api.exception_handler(DataError)
def not_kept(request: HttpRequest, error: DataError) -> HttpResponse:
    return problem(unkept())


@api.exception_handler(AuthenticationError)
def stranger(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return problem(NotAuthenticated(STRANGER, hint=STRANGER_HINT))


@api.exception_handler(HttpError)
def unreadable(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 403:
        return problem(Forbidden("The request did not carry this page's CSRF token.", code="csrf_failed",
                                 hint="Load the page again; programs send a bearer token instead of a session."))
    if isinstance(error.__cause__, OperationError):
        return problem(error.__cause__)
    return problem(InvalidInput(f"The request could not be read: {error}."))


@api.exception_handler(ValidationError)
def malformed(request: HttpRequest, error: ValidationError) -> HttpResponse:
    problems = [Problem(_path(item["loc"]), item["type"], item["msg"]) for item in error.errors]
    first = problems[0]
    return problem(InvalidInput(f"{first.path}: {first.message}." if problems else "The request is malformed.",
                                problems=problems))


def _path(location: Any) -> str:
    return written_path(part for part in location if part not in {"body", "query", "path", "payload"}) or "body"


for prefix, module in ROUTERS:
    alias = prefix == "/training/projects"
    router = import_module(module).router
    if alias:
        router = import_module(module).make_router()
    api.add_router(prefix, refuse_what_is_not_read(router))
