"""Sweeping: one branch of a snapshot for each point of a grid, all of them checked before any is started."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import Problem
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import derived_id, new_id
from runs.errors import RunRefused
from runs.models import Run, Snapshot
from runs.operations.branching import AUTO, Planned, Wish, earlier_branch, plan_branch, submit_branch

MOST_BRANCHES = 50
"""As many branch models as one comparison scores."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep: its values by path, its branch's plan, and the run that it is where there is one."""

    values: dict[str, Any]
    wish: Wish
    planned: Planned | None
    run: Run | None
    is_new: bool


@dataclass(frozen=True)
class Sweep:
    """The points of a grid in order, and the token under which sending it again reaches the same runs."""

    submission_id: str
    points: tuple[Point, ...]


def sweep_runs(snapshot: Snapshot, *, steps: int, grid: Any, restore: str = AUTO, description: str = "",
               submission_id: str = "", dry_run: bool = False, actor: Actor) -> Sweep:
    """Start a branch for each point that has none yet; a dry run only checks. Raises RunRefused with every problem."""
    actor.require("viewer" if dry_run else "operator")
    token = submission_id or new_id()[:32]
    base = Wish(snapshot, steps, restore, {}, description)
    points = [_plan(_wish(base, token, values), values, actor) for values in values_of(grid)]
    _refuse(snapshot, points)
    return Sweep(token, tuple(points if dry_run else [_start(point, token, actor) for point in points]))


def values_of(grid: Any) -> list[dict[str, Any]]:
    """The points of a grid, its last axis fastest; values keep their kind. Raises RunRefused."""
    problems = list(_grid_problems(grid))
    if problems:
        raise RunRefused.because(problems)
    axes = grid["axes"]
    return [dict(zip([axis["path"] for axis in axes], values, strict=True))
            for values in itertools.product(*(axis["values"] for axis in axes))]


def overrides_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """A point as an override document: `{"a.b": 1}` is `{"a": {"b": 1}}`."""
    document: dict[str, Any] = {}
    for path, value in values.items():
        *groups, name = path.split(".")
        node = document
        for group in groups:
            node = node.setdefault(group, {})
        node[name] = value
    return document


def _grid_problems(grid: Any) -> Iterator[Problem]:
    axes = grid.get("axes") if isinstance(grid, Mapping) else None
    if not isinstance(axes, list) or not axes:
        yield Problem("grid.axes", "grid_without_axes", "The grid has no axes.",
                      'For instance {"axes": [{"path": "hyperparams.training.seed", "values": [1, 2, 3]}]}.')
        return
    for number, axis in enumerate(axes):
        where = f"grid.axes[{number}]"
        path = axis.get("path") if isinstance(axis, Mapping) else None
        if not isinstance(path, str) or not all(path.split(".")):
            yield Problem(f"{where}.path", "axis_without_path", "An axis names the field that it changes.")
            return
        if not isinstance(axis.get("values"), list) or not axis["values"]:
            yield Problem(f"{where}.values", "axis_without_values", f"The axis {path} has no values.")
    yield from _overlaps([str(axis["path"]) for axis in axes])
    points = 1
    for axis in axes:
        points *= max(1, len(axis["values"]) if isinstance(axis.get("values"), list) else 1)
    if points > MOST_BRANCHES:
        yield Problem("grid", "too_many_points", f"The grid has {points} points; one comparison scores at most "
                      f"{MOST_BRANCHES}.", "Give the axes fewer values.")


def _overlaps(paths: list[str]) -> Iterator[Problem]:
    for number, path in enumerate(paths):
        for other in paths[:number]:
            if path == other or path.startswith(other + ".") or other.startswith(path + "."):
                yield Problem(f"grid.axes[{number}].path", "axes_overlap", f"The axes {other} and {path} change the "
                              "same field.", "Give each field one axis.")


def _wish(base: Wish, token: str, values: dict[str, Any]) -> Wish:
    """The branch of one point. Its submission follows from the token and the values, so that it is found again."""
    name = derived_id("sweep", token, base.snapshot.pk, sha256_json(values))[:32]
    label = ", ".join(f"{path.rpartition('.')[2]} {value}" for path, value in values.items())
    return replace(base, overrides=overrides_of(values), config_name=label[:120], submission_id=name)


def _plan(wish: Wish, values: dict[str, Any], actor: Actor) -> Point:
    earlier = earlier_branch(wish)
    planned = plan_branch(wish, actor=actor) if earlier is None else None
    return Point(values, wish, planned, earlier, is_new=False)


def _refuse(snapshot: Snapshot, points: list[Point]) -> None:
    problems = [Problem(f"points[{number}].{problem.path}", problem.code, problem.message, problem.hint)
                for number, point in enumerate(points) if point.planned for problem in point.planned.problems]
    new = sum(point.run is None for point in points)
    existing = snapshot.branches.count()
    if existing + new > MOST_BRANCHES:
        problems.append(Problem("grid", "too_many_branches", f"The snapshot has {existing} branches and the sweep "
                                f"adds {new}; one comparison scores at most {MOST_BRANCHES}.",
                                "Give the axes fewer values."))
    if problems:
        raise RunRefused.because(problems)


def _start(point: Point, token: str, actor: Actor) -> Point:
    if point.planned is None:
        return point
    submission = submit_branch(point.planned, actor=actor)
    Run.objects.filter(pk=submission.run.pk).update(sweep_id=token, sweep_point=point.values)
    return replace(point, run=submission.run, is_new=submission.is_new)
