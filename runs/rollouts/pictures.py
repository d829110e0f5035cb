"""Pictures of how figures are spread: one update as bars, all of them as a map that is dark where many lie. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from datasets.analyses.plots import Bar, Mark
from runs.rollouts.distributions import edges_of, laid_over

WIDTH, FLOOR, TOP, HEIGHT = 270.0, 72.0, 6.0, 98.0
GAP = 1.0
MAP_WIDTH, MAP_HEIGHT, LEFT, BOTTOM = 460, 150, 44, 22
COLUMNS, SHADES = 60, 5


@dataclass(frozen=True)
class Spread:
    """One update's bars. `words` says it to who cannot see it."""

    bars: tuple[Bar, ...]
    ticks: tuple[Mark, ...]
    words: str
    limits: tuple[Mark, ...] = ()
    width: float = WIDTH
    height: float = HEIGHT
    floor: float = FLOOR


def plot_spread(spread: Mapping[str, Any] | None, unit: str) -> Spread | None:
    """The bars of one figure of one update; None where nothing was counted."""
    if spread is None:
        return None
    edges, counts, tallest = spread["edges"], spread["counts"], max(spread["counts"])
    step = WIDTH / len(counts)
    bars = tuple(_bar(index, step, tallest, edges, count, unit) for index, count in enumerate(counts) if count)
    words = (f"{sum(counts):,} rollouts by {unit}: half of them under {spread['p50']:.4g}, one in twenty under "
             f"{spread['p5']:.4g}, one in twenty over {spread['p95']:.4g}.")
    return Spread(bars, _ticks(edges), words)


def _bar(index: int, step: float, tallest: int, edges: Sequence[float], count: int, unit: str) -> Bar:
    height = max((FLOOR - TOP) * count / tallest, 1.5)
    words = f"{edges[index]:.4g} to {edges[index + 1]:.4g} {unit}: {count:,} rollouts"
    return Bar(round(index * step, 2), round(FLOOR - height, 2), round(step - GAP, 2), round(height, 2), words)


def _ticks(edges: Sequence[float]) -> tuple[Mark, ...]:
    quarters = [round((len(edges) - 1) * part / 4) for part in range(5)]
    return tuple(Mark(round(place * WIDTH / (len(edges) - 1), 1), f"{edges[place]:.4g}", place == len(edges) - 1)
                 for place in quarters)


@dataclass(frozen=True)
class SpreadMap:
    """Every update's spread side by side, from left to right: a path of cells for each of the shades, light to dark."""

    shades: tuple[str, ...]
    ticks: tuple[Mark, ...]
    heights: tuple[tuple[float, str], ...]
    words: str
    width: int = MAP_WIDTH
    height: int = MAP_HEIGHT
    left: int = LEFT
    floor: int = MAP_HEIGHT - BOTTOM


def plot_map(steps: Sequence[tuple[int, Mapping[str, Any]]], unit: str) -> SpreadMap | None:
    """The map of one figure over updates with their spreads; None with fewer than two."""
    if len(steps) < 2:
        return None
    edges = edges_of(min(spread["edges"][0] for _, spread in steps), max(spread["edges"][-1] for _, spread in steps))
    columns = [_column(part, edges) for part in _parted(steps)]
    used = [index for index in range(len(edges) - 1) if any(counts[index] for _, counts in columns)]
    low, high = used[0], used[-1] + 1
    first, last = steps[0], steps[-1]
    words = (f"The spread of the {unit} over updates {first[0]:,} to {last[0]:,}: its middle went from "
             f"{first[1]['p50']:.4g} to {last[1]['p50']:.4g}.")
    return SpreadMap(_shades(columns, low, high), _steps(columns), _heights(edges, low, high), words)


def _parted(steps: Sequence[Any]) -> list[Sequence[Any]]:
    count = min(COLUMNS, len(steps))
    places = [round(index * len(steps) / count) for index in range(count + 1)]
    return [steps[start:end] for start, end in pairwise(places)]


def _column(part: Sequence[tuple[int, Mapping[str, Any]]], edges: Sequence[float]) -> tuple[int, list[int]]:
    """The first update of a stretch, and what its updates together have in each bin."""
    counts = [laid_over(spread, edges) for _, spread in part]
    return part[0][0], [sum(column) for column in zip(*counts, strict=True)]


def _shades(columns: Sequence[tuple[int, list[int]]], low: int, high: int) -> tuple[str, ...]:
    """The cells of each shade as one path: a bin is as dark as its share of its column."""
    across, tall = (MAP_WIDTH - LEFT) / len(columns), (MAP_HEIGHT - BOTTOM) / (high - low)
    paths: list[list[str]] = [[] for _ in range(SHADES)]
    for place, (_, counts) in enumerate(columns):
        whole = sum(counts) or 1
        for index in range(low, high):
            if counts[index]:
                shade = min(SHADES - 1, int(SHADES * (counts[index] / whole) ** 0.5))
                paths[shade].append(f"M{LEFT + place * across:.0f} {(high - index - 1) * tall:.0f}h{across:.1f}"
                                    f"v{tall:.1f}h-{across:.1f}z")
    return tuple("".join(path) for path in paths)


def _steps(columns: Sequence[tuple[int, list[int]]]) -> tuple[Mark, ...]:
    across = (MAP_WIDTH - LEFT) / len(columns)
    places = sorted({0, len(columns) // 4, len(columns) // 2, 3 * len(columns) // 4, len(columns) - 1})
    return tuple(Mark(round(LEFT + (place + 0.5) * across, 1), f"{columns[place][0]:,}", place == len(columns) - 1)
                 for place in places)


def _heights(edges: Sequence[float], low: int, high: int) -> tuple[tuple[float, str], ...]:
    tall = (MAP_HEIGHT - BOTTOM) / (high - low)
    places = sorted({low, (low + high) // 2, high})
    return tuple((round((high - place) * tall, 1), f"{edges[place]:.3g}") for place in places)
