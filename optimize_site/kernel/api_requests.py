"""How the API reads a request: nothing that was sent is passed over in silence."""

import json
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from ninja import Router
from ninja.operation import Operation
from ninja.parser import Parser

from optimize_site.kernel.errors import InvalidInput


class StrictParser(Parser):
    """JSON with every field once and numbers that JSON has."""

    def parse_body(self, request: HttpRequest) -> Any:
        """The body's value. Raises InvalidInput saying where and why it is no such JSON."""
        try:
            return json.loads(request.body, object_pairs_hook=_once, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"The body is no JSON: {error}.", hint="Send one JSON value.") from error
        except UnicodeDecodeError as error:
            raise InvalidInput(f"The body is no UTF-8 text: its byte {error.start} begins no character.",
                               hint="Send JSON in UTF-8.") from error
        except RecursionError as error:
            raise InvalidInput("The body is nested too deep.") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"The body states the field {twice[:80]!r} twice.", hint="State it once.")
    return found


def _refuse(name: str) -> Any:
    raise InvalidInput(f"The body holds {name}, which is no JSON number.", hint="Leave it out, or send null.")


def refuse_what_is_not_read(router: Router) -> Router:
    """Have every route of the router refuse parameters of the address that it has not, one that is stated twice, and a
    body where it takes none."""
    for operation in _operations(router):
        operation.view_func = _checked(operation.view_func, *_parameters(operation), takes_body=_takes_body(operation))
    return router


def _operations(router: Router) -> Iterator[Operation]:
    for view in router.path_operations.values():
        yield from view.operations


def _parameters(operation: Operation) -> tuple[set[str], set[str]]:
    """The names of the parameters that the route takes from the address, and of those that may repeat."""
    models: list[Any] = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    return ({name for model in models for name in model.__ninja_flatten_map__},
            {name for model in models for name in model.__ninja_collection_fields__})


def _takes_body(operation: Operation) -> bool:
    """Whether the route states a body, as fields or, where it reads the bytes itself, for its description."""
    sources = {model.__ninja_param_source__ for model in operation.models}
    return not sources.isdisjoint({"body", "form", "file"}) or "requestBody" in (operation.openapi_extra or {})


def _checked(view: Callable[..., Any], names: set[str], lists: set[str], *, takes_body: bool) -> Callable[..., Any]:
    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **values: Any) -> Any:
        for name, stated in request.GET.lists():
            if name not in names:
                has = f"It has {', '.join(sorted(names))}." if names else "It has none."
                raise InvalidInput(f"The address has no parameter {name[:80]!r}.", hint=has, code="unknown_parameter")
            if len(stated) > 1 and name not in lists:
                raise InvalidInput(f"The parameter {name} is stated {len(stated)} times.", hint="State it once.",
                                   code="repeated_parameter")
        if not takes_body and _says_something(request):
            raise InvalidInput("The request has a body, and this route takes none.", hint="Leave the body out.",
                               code="unexpected_body")
        return view(request, *args, **values)

    return checked


def _says_something(request: HttpRequest) -> bool:
    """Whether the body says anything: an empty object or form, as programs send where they have nothing to say, does
    not."""
    if request.META.get("CONTENT_LENGTH") in (None, "", "0") and "Transfer-Encoding" not in request.headers:
        return False
    if request.content_type == "multipart/form-data":
        return bool(request.FILES or set(request.POST) - {"csrfmiddlewaretoken"})
    try:
        return request.body.strip() not in (b"", b"{}")
    except RequestDataTooBig:
        return True
