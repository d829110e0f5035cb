"""A tree of branches as a picture: boxes from left to right, a line from each run to each of its branches. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WIDTH, HEIGHT, BETWEEN_COLUMNS, BETWEEN_ROWS, MARGIN = 208, 64, 100, 14, 4
MOST_NODES = 200
TITLE_CHARACTERS = 26


@dataclass(frozen=True)
class Node:
    """One run's box, by its upper left corner in pixels."""

    run: Mapping[str, Any]
    x: int
    y: int
    is_self: bool

    @property
    def title(self) -> str:
        """What the run is called, as much as the box holds."""
        whole = self.run["configName"] or f"Run {self.run['runId'][:12]}"
        return whole if len(whole) <= TITLE_CHARACTERS else f"{whole[:TITLE_CHARACTERS - 1]}…"

    @property
    def progress(self) -> str:
        """Its updates and its newest figure."""
        total = f" of {self.run['budgetSteps']:,}" if self.run["budgetSteps"] else ""
        last = self.run["lastFigure"]
        figure = f", {last['name']} {last['value']:.4g}" if last else ""
        return f"{self.run['observedStep']:,}{total} updates{figure}"


@dataclass
class Picture:
    """The whole: its size in pixels, boxes, and lines as SVG paths; `is_cut` where the tree has more than fit."""

    nodes: list[Node] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    width: int = 0
    height: int = 0
    is_cut: bool = False


def draw(tree: Mapping[str, Any], *, here: str) -> Picture:
    """The picture of a tree as `runs.lineage` gives it; the run `here` is marked."""
    picture = Picture()
    _place(picture, tree, 0, 0, here)
    picture.width = max(node.x for node in picture.nodes) + WIDTH + MARGIN
    picture.height = max(node.y for node in picture.nodes) + HEIGHT + MARGIN
    return picture


def _place(picture: Picture, run: Mapping[str, Any], column: int, row: int, here: str) -> int:
    """Put a run beside its first branch and give the first row below all of them."""
    x, y = MARGIN + column * (WIDTH + BETWEEN_COLUMNS), MARGIN + row * (HEIGHT + BETWEEN_ROWS)
    picture.nodes.append(Node(run, x, y, run["runId"] == here))
    below = row
    for branch in run["branches"]:
        if len(picture.nodes) >= MOST_NODES:
            picture.is_cut = True
            break
        picture.lines.append(_line(x + WIDTH, y + HEIGHT // 2, MARGIN + below * (HEIGHT + BETWEEN_ROWS) + HEIGHT // 2))
        below = _place(picture, branch, column + 1, below, here)
    return max(below, row + 1)


def _line(x: int, y: int, to_y: int) -> str:
    """A bend and then a straight stretch, over which the branch's source step has room."""
    bend = BETWEEN_COLUMNS * 2 // 5
    return f"M{x} {y} C{x + bend // 2} {y} {x + bend // 2} {to_y} {x + bend} {to_y} H{x + BETWEEN_COLUMNS}"
