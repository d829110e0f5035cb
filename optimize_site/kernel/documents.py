"""Reads a document a person wrote: JSON or YAML, strictly. A key written twice is an error, not a choice."""

import json
import re
from collections.abc import Hashable
from typing import Any, NoReturn

import yaml

from optimize_site.kernel.errors import InvalidInput


def parse_document(text: str, *, name: str = "The document") -> Any:
    """The value of a JSON or YAML text. Raises InvalidInput saying where it cannot be read."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        if text.lstrip()[:1] in {"{", "["} and not _may_be_yaml(text):
            raise _malformed(f"{name} is not JSON: {error}.") from error
    except RecursionError as error:
        raise _malformed(f"{name} is nested too deep.") from error
    except ValueError as error:
        raise _malformed(f"{name} holds a number that is too long.") from error
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _malformed(f"{name} is neither JSON nor YAML: {_first_line(error)}.") from error


class Loader(yaml.SafeLoader):
    """YAML whose numbers are those of its newest version: `1e-4` is a number, `on` is a text, dates are texts.

    An alias is refused: a few lines of them can stand for more data than there is memory.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "an alias (*) cannot be used here",
                                                    self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]  # type: ignore[no-untyped-call]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is written twice",
                                                        node.start_mark)
        return super().construct_mapping(node, deep)


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in {
        "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int"}]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
                             list("tTfF"))
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
Loader.add_implicit_resolver("tag:yaml.org,2002:float",
                             re.compile(r"^[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"),
                             list("-+0123456789."))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _malformed(f"The key {twice!r} is written twice.")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _malformed(f"{name} is not a JSON number.")


def _may_be_yaml(text: str) -> bool:
    """A flow mapping with bare words, `{a: 1}`, is YAML although it begins like JSON."""
    return re.search(r"[{,\[]\s*[A-Za-z_][\w.-]*\s*:", text) is not None


def _first_line(error: BaseException) -> str:
    problem = getattr(error, "problem", None)
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark is not None else ""
    return f"{problem or str(error).splitlines()[0]}{where}"


def _malformed(sentence: str) -> InvalidInput:
    return InvalidInput(sentence, code="malformed_document")
