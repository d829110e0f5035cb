"""Branches, trees and sweeps as lines for people. Pure: documents in, rows out."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runs.phases import title
from runs.text import last_words

BRANCH_COLUMNS = ("RUN", "SOURCE STEP", "STEPS", "RESTORE", "PHASE", "LAST", "CONFIG", "CHANGES")
POINT_COLUMNS = ("RUN", "VALUES", "RESTORE", "PHASE")


def branch_rows(branches: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Branches as table rows."""
    return [[row["runId"][:12], row["sourceStep"], row["budgetSteps"], row["restoreMode"], title(row["phase"]),
             last_words(row), row["configName"] or row["configHash"][:12],
             ", ".join(path.removeprefix("config.") for path in row["overrides"]) or None] for row in branches]


def tree_rows(node: Mapping[str, Any], depth: int = 0) -> Iterator[list[Any]]:
    """A tree of branches as table rows, each indented below its parent."""
    (row,) = branch_rows([node])
    yield [f"{'  ' * depth}{row[0]}", *row[1:]]
    for branch in node["branches"]:
        yield from tree_rows(branch, depth + 1)


def planned_rows(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The verdict of a branch's dry run."""
    return [("Valid", "yes" if document["valid"] else "no"), ("Configuration", document["configHash"]),
            ("From", f"step {document['sourceStep']}, snapshot {document['snapshotId'][:12]}"),
            ("Restore", f"{document['restoreMode']}. {document['restoreReason']}".rstrip()),
            ("Updates", document["budgetSteps"]), ("Changes", ", ".join(document["overrides"]) or "nothing"),
            *(("Warning", warning["message"]) for warning in document["warnings"])]


def point_rows(points: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """The points of a sweep as table rows."""
    return [[point["childRunId"][:12], ", ".join(f"{path} = {value}" for path, value in point["values"].items()),
             point["restoreMode"], title(point["phase"]) if point["phase"] else None] for point in points]
