"""P18: from the end of a job to the first word of the job that waits for its slot."""

from __future__ import annotations

import json
import statistics

from bench.boxes import events_of, scratch_box
from bench.measure import arguments, load_before, spread, verdict
from tests.e2e import running

LIMIT_SECONDS, SLOTS = 1.0, 2


def main(argv: list[str]) -> int:
    """More runs than a box has slots; the ends of jobs and the starts of the next, each in order."""
    parser = arguments(__doc__ or "", repeats=10)
    options = parser.parse_args(argv)
    load = load_before()
    with scratch_box("p18") as http:
        running.finish(http, running.start(http, steps=3))  # its prepared process is there from now on
        ids = [running.start(http, steps=10) for _ in range(options.repeats + SLOTS)]
        for run_id in ids:
            running.finish(http, run_id)
        starts = sorted(events_of(http, run_id, "started")[0]["t"] for run_id in ids)
        ends = sorted(json.loads((running.attempt_of(http.box, run_id) / "exit.json").read_text())["ended_at"]
                      for run_id in ids)
    waits = [start - end for start, end in zip(starts[SLOTS:], ends, strict=False)]
    median = statistics.median(waits)
    print(f"  a slot is free and its next job speaks   median {median:.3f} s   {spread(waits)}")
    return verdict(f"P18: {median:.3f} s (bar ≤ {LIMIT_SECONDS} s)", median <= LIMIT_SECONDS, len(waits), load,
                   options.max_load)
