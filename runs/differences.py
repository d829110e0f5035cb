"""In which settings configurations differ, side by side. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings in which two configurations differ: path, this one's value, the other's."""
    return [{"path": row["path"], "source": row["values"][0], "target": row["values"][1]}
            for row in side_by_side([ours, theirs])]


def side_by_side(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The settings in which any of several configurations differs: the path, and each one's value in their order."""
    leaves = [dict(_leaves(config)) for config in configs]
    paths = sorted({path for found in leaves for path in found})
    rows = [{"path": path, "values": [found.get(path) for found in leaves]} for path in paths]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]


def _leaves(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping):
            yield from _leaves(value, where)
        else:
            yield where, value
