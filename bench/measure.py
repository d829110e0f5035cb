"""Measuring two arms side by side: interleaved A/B/B/A, medians, spread, and whether the machine was quiet enough."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LEAST_REPEATS = 5


@dataclass
class Arm:
    """One side of a comparison: a name, what to run once, and what each run measured."""

    name: str
    run: Callable[[], float]
    values: list[float] = field(default_factory=list)

    def measure(self) -> None:
        self.values.append(self.run())


def arguments(description: str, *, repeats: int = 6) -> argparse.ArgumentParser:
    """The options every bar has."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=description)
    parser.add_argument("--repeats", type=int, default=repeats, help="measurements of each arm")
    parser.add_argument("--max-load", type=float, default=1.5, help="load average above which nothing is judged")
    parser.add_argument("--threads", type=int, default=1, help="threads of each arm")
    return parser


def interleave(ours: Arm, theirs: Arm, repeats: int) -> None:
    """A B B A A B B A …: what drifts over time falls on both arms alike."""
    for number in range(repeats):
        pair = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        for arm in pair:
            arm.measure()


def judge(bar: str, ours: Arm, theirs: Arm, *, limit: float, load: float, max_load: float, more: bool = False) -> int:
    """Print both arms and their ratio beside the limit. 0: kept, 1: missed, 3: not judged, the machine was busy.

    With `more`, the ratio must reach the limit instead of staying below it.
    """
    for arm in (ours, theirs):
        print(f"  {arm.name:28} median {statistics.median(arm.values):9.4f}   {spread(arm.values)}")
    ratios = [a / b for a, b in zip(ours.values, theirs.values, strict=True)]
    ratio = statistics.median(ours.values) / statistics.median(theirs.values)
    print(f"  ratio of medians {ratio:.3f}, of pairs {min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} repeats")
    kept = ratio >= limit if more else ratio <= limit
    sign = "≥" if more else "≤"
    return verdict(f"{bar}: {ratio:.3f} (bar {sign} {limit})", kept, len(ratios), load, max_load)


def verdict(text: str, kept: bool, repeats: int, load: float, max_load: float) -> int:
    """The line that counts, with the load it was measured under."""
    now = os.getloadavg()[0]
    print(f"  load average {load:.2f} before, {now:.2f} after")
    if load > max_load:
        print(f"{text}: not judged, the load was {load:.2f} and {max_load} is the most")
        return 3
    if repeats < LEAST_REPEATS:
        print(f"{text}: not judged, {repeats} repeats and {LEAST_REPEATS} are the least")
        return 3
    print(f"{text}: {'kept' if kept else 'MISSED'}")
    return 0 if kept else 1


def spread(values: Sequence[float]) -> str:
    return f"[{min(values):.4f} … {max(values):.4f}]"


def load_before() -> float:
    return os.getloadavg()[0]


def seconds(run: Callable[[], object]) -> float:
    """The wall time of one call."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
