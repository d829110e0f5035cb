"""Compared runs as lines for people. Pure: documents in, rows out."""

from collections.abc import Mapping
from typing import Any

from runs.phases import title

SPIKES_SHOWN = 3


def run_columns(found: Mapping[str, Any]) -> list[str]:
    """The header of the table of runs, with the figure that they are compared by."""
    return ["RUN", "CONFIG", "PHASE", "STEPS", name_of(found["figure"]).upper(), "SPIKES", "MEAN DIFFERENCE",
            "PARTS AT"]


def name_of(figure: str) -> str:
    """A figure's name in words: `preferenceAccuracy` is `preference accuracy`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in figure)


def compared_rows(found: Mapping[str, Any]) -> list[list[Any]]:
    """Each run, and how it lies to the first one."""
    pairs = {pair["runId"]: pair for pair in found["pairs"]}
    return [[run["runId"][:12], run["configName"] or run["configHash"][:12], title(run["phase"]), run["observedStep"],
             figure(run["last"]), spike_words(run["spikes"]), *_pair_cells(pairs.get(run["runId"]))]
            for run in found["runs"]]


def window_columns(found: Mapping[str, Any]) -> list[str]:
    """The header of the table of windows: the updates, then each run but the first."""
    return ["UPDATES", *(pair["runId"][:12] for pair in found["pairs"])]


def window_rows(found: Mapping[str, Any]) -> list[list[Any]]:
    """A row for each window: the mean difference of each run from the first one."""
    by_run = [{window["first"]: window for window in pair["windows"]} for pair in found["pairs"]]
    firsts = sorted({first for windows in by_run for first in windows})
    return [[f"{first} to {first + found['window'] - 1}",
             *(signed(windows[first]["meanDifference"]) if first in windows else None for windows in by_run)]
            for first in firsts]


def difference_rows(found: Mapping[str, Any]) -> list[list[Any]]:
    """A row for each setting that differs."""
    return [[row["path"], *row["values"]] for row in found["differences"]]


def spike_words(spikes: list[dict[str, Any]]) -> str | None:
    """Where a gradient spiked: `2: 61 (4.1), 80 (inf)`."""
    if not spikes:
        return None
    shown = ", ".join(f"{spike['step']} ({figure(spike['gradNorm']) or 'not finite'})" for spike in
                      spikes[:SPIKES_SHOWN])
    return f"{len(spikes)}: {shown}{', …' if len(spikes) > SPIKES_SHOWN else ''}"


def _pair_cells(pair: Mapping[str, Any] | None) -> list[Any]:
    if pair is None:
        return ["the others against this", None]
    parting = pair["firstParting"]
    return [signed(pair["meanDifference"]), f"{parting['first']} to {parting['last']}" if parting else None]


def figure(value: float | None) -> str | None:
    """A figure to four places."""
    return None if value is None else f"{value:.4f}"


def signed(value: float | None) -> str | None:
    """A difference with its sign."""
    return None if value is None else f"{value:+.4f}"
