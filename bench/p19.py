"""P19: from an accepted pause to the job's process being gone, over the update it is at and the save it writes."""

from __future__ import annotations

import statistics
import time

from bench.boxes import events_of, scratch_box
from bench.measure import arguments, load_before, spread, verdict
from gpu_worker import processes
from tests.e2e import running

LIMIT_SECONDS = 1.0
STEPS = 600


def main(argv: list[str]) -> int:
    """One long run that is paused with a save and resumed again and again."""
    parser = arguments(__doc__ or "")
    options = parser.parse_args(argv)
    load = load_before()
    with scratch_box("p19") as http:
        run_id = running.start(http, steps=STEPS, save_every=STEPS)
        over = [_over(http, run_id) for _ in range(options.repeats)]
        http.post(f"/v1/training/runs/{run_id}/cancel", {})
    median = statistics.median(over)
    print(f"  pause, over one update and one save   median {median:.3f} s   {spread(over)}")
    return verdict(f"P19: +{median:.3f} s (bar ≤ +{LIMIT_SECONDS} s)", median <= LIMIT_SECONDS, len(over), load,
                   options.max_load)


def _over(http, run_id: str) -> float:
    """One pause, once the job trains; the run goes on afterwards."""
    path = f"/v1/training/runs/{run_id}"
    seen = running.run_of(http, run_id)["observedStep"] or 0
    running.train_past(http, run_id, seen + 5)
    http.post(f"{path}/pause", {"checkpoint": "save"})
    accepted = time.time()
    job = processes.job_of(running.attempt_of(http.box, run_id))
    while job.is_alive():
        time.sleep(0.005)
    gone = time.time()
    figures, save = events_of(http, run_id, "metrics"), events_of(http, run_id, "snapshot")[-1]
    update = statistics.median(event["values"]["step_seconds"] for event in figures)
    http.follow(path, "phase", {"PAUSED"})
    http.post(f"{path}/resume", {})
    return gone - accepted - update - (save["t"] - figures[-1]["t"])
