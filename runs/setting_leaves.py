"""The single values of a group of settings, each with its place in it. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]


def setting_leaves(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below a group, groups in lists looked through too; an empty group is a value."""
    if isinstance(node, Mapping) and node:
        for name, value in node.items():
            yield from setting_leaves(value, (*path, str(name)))
    elif isinstance(node, list) and any(isinstance(item, Mapping) for item in node):
        for number, item in enumerate(node):
            yield from setting_leaves(item, (*path, number))
    else:
        yield path, node


def is_stated(path: Path, stated: set[str]) -> bool:
    """Whether a person wrote the value; a list is written as a whole."""
    names: list[str] = []
    for part in path:
        if isinstance(part, int):
            break
        names.append(part)
    return ".".join(names) in stated
