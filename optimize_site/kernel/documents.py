"""Reads a document a person wrote: JSON or YAML, strictly. A key written twice is an error, not a choice.

What a document of the longest allowed length costs stays well below a second, whatever it holds: nothing here takes
longer than in proportion to it, libyaml reads the characters where it is present, and YAML, which costs much for each
value, may hold only so many of them.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NoReturn

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from optimize_site.kernel.errors import InvalidInput, TooLarge

MAX_CHARACTERS = 512 * 1024
MAX_DEPTH = 100
MAX_YAML_VALUES = 20_000
"""Keys, texts and groups together; a document with more is written as JSON."""
TAGS = ("null", "bool", "int", "float", "str", "seq", "map")


def parse_document(text: str, *, name: str = "The document") -> Any:
    """The value of a JSON or YAML text. Raises InvalidInput saying where it cannot be read, TooLarge."""
    if len(text) > MAX_CHARACTERS:
        raise TooLarge(f"{name} has {len(text)} characters; this box reads at most {MAX_CHARACTERS}.")
    value = _parse_json_or_yaml(text, name)
    if _is_deep(value):
        raise _malformed(f"{name} is nested too deep.")
    return value


def _is_deep(value: Any) -> bool:
    """Whether the value nests deeper than what walks over it afterwards can follow."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for holder in level if isinstance(holder, dict | list)
                 for item in (holder.values() if isinstance(holder, dict) else holder)]
    return bool(level)


def _parse_json_or_yaml(text: str, name: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        if text.lstrip()[:1] in {"{", "["} and not _may_be_yaml(text):
            raise _malformed(f"{name} is not JSON: {error}.") from error
    except RecursionError as error:
        raise _malformed(f"{name} is nested too deep.") from error
    except ValueError as error:
        raise _malformed(f"{name} holds a number that is too long.") from error
    return _parse_yaml(text, name)


def _parse_yaml(text: str, name: str) -> Any:
    try:
        return yaml.load(text, Loader)  # noqa: S506 - its constructors are safe ones
    except yaml.YAMLError as error:
        raise _malformed(f"{name} is neither JSON nor YAML: {_first_line(error)}.") from error
    except RecursionError as error:
        raise _malformed(f"{name} is nested too deep.") from error
    except UnicodeEncodeError as error:
        raise _malformed(f"{name} holds half of a character, which no text has.") from error
    except ValueError as error:
        raise _malformed(f"{name} holds a number that is too long.") from error


class Strict(Composer, SafeConstructor, Resolver):
    """YAML that says what JSON can say, its numbers those of YAML's newest version: `1e-4` is a number, `on` is a text.

    Keys are texts. Dates are texts, and no tag makes anything else. An alias is refused: a few lines of them can stand
    for more data than there is memory.
    """

    # Of the events that a subclass brings.
    check_event: Callable[..., bool]
    peek_event: Callable[[], Any]

    def __init__(self) -> None:
        Composer.__init__(self)  # type: ignore[no-untyped-call]
        SafeConstructor.__init__(self)  # type: ignore[no-untyped-call]
        Resolver.__init__(self)  # type: ignore[no-untyped-call]
        self._num_values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._num_values += 1
        if self._num_values > MAX_YAML_VALUES:
            raise TooLarge(f"The document holds more than {MAX_YAML_VALUES:,} values, too many for YAML here.",
                           hint="Write it as JSON.")
        if self.check_event(yaml.AliasEvent):
            raise _refused("an alias (*) cannot be used here", self.peek_event())
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self._key(key) for key, _ in node.value]
        twice = _first_twice(keys)
        if twice is not None:
            raise _refused(f"the key {twice!r} is written twice", node)
        return super().construct_mapping(node, deep)

    def _key(self, node: yaml.Node) -> str:
        key = self.construct_object(node, deep=True)  # type: ignore[no-untyped-call]
        if not isinstance(key, str):
            raise _refused("a key is a text; write this one in quotes", node)
        return key

    def refuse_tag(self, node: yaml.Node) -> NoReturn:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise _refused(f"the tag {tag} cannot be used here", node)


def _refused(sentence: str, where: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, sentence, where.start_mark)  # type: ignore[no-untyped-call]


Strict.yaml_constructors = {f"tag:yaml.org,2002:{name}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{name}"]
                            for name in TAGS} | {None: Strict.refuse_tag}
Strict.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in {
        "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int"}]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Strict.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
                             list("tTfF"))
Strict.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
Strict.add_implicit_resolver("tag:yaml.org,2002:float",
                             re.compile(r"^[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"),
                             list("-+0123456789."))


class PythonEvents(Reader, Scanner, Parser):
    """What a text holds, one event after another, where libyaml is not present."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)  # type: ignore[no-untyped-call]
        Scanner.__init__(self)  # type: ignore[no-untyped-call]
        Parser.__init__(self)  # type: ignore[no-untyped-call]


Events: Any = getattr(yaml, "cyaml").CParser if yaml.__with_libyaml__ else PythonEvents  # noqa: B009 - it may lack


class Loader(Strict, Events):
    """Strict, over the fastest events there are."""

    def __init__(self, text: str) -> None:
        Events.__init__(self, text)
        Strict.__init__(self)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = _first_twice(name for name, _ in pairs)
    if twice is not None:
        raise _malformed(f"The key {twice!r} is written twice.")
    return dict(pairs)


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


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
