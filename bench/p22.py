"""P22: from the death of every server process, and of two jobs, with 100 open runs to every run's phase being true."""

from __future__ import annotations

import signal
import statistics
import time

from bench.boxes import scratch_box
from bench.measure import arguments, load_before, verdict
from gpu_worker import processes
from tests.e2e import running
from tests.e2e.tiny_box import descriptor

LIMIT_SECONDS, OPEN_RUNS, STEPS, EPOCHS = 5.0, 100, 20_000, 700


def main(argv: list[str]) -> int:
    """kill -9 for all of them at once. True: the two whose jobs died have jobs again, the others wait as before."""
    parser = arguments(__doc__ or "", repeats=5)
    parser.add_argument("--open", type=int, default=OPEN_RUNS, help="runs that are open (at most a page of the list)")
    options = parser.parse_args(argv)
    load, times = load_before(), []
    with scratch_box("p22") as http:
        waiting = [_start(http) for _ in range(options.open)]
        for _ in range(options.repeats):
            for run_id in waiting[:2]:
                running.train_past(http, run_id, 21)
            for run_id in waiting[2:]:
                http.follow(f"/v1/training/runs/{run_id}", "phase", {"AWAITING_CAPACITY"})
            times.append(_recovery(http, waiting))
            print(f"  every phase of {len(waiting)} open runs is true after {times[-1]:.2f} s")
            waiting = _others_instead(http, waiting)
        for run_id in waiting:
            http.post(f"/v1/training/runs/{run_id}/cancel", {})
    seconds = statistics.median(times)
    return verdict(f"P22: {seconds:.2f} s (bar ≤ {LIMIT_SECONDS} s)", seconds <= LIMIT_SECONDS, len(times), load,
                   options.max_load)


def _start(http) -> str:
    """A run that is not over before the bar is."""
    body = descriptor(max_steps=STEPS, save_every=20)
    body["config"]["hyperparams"]["training"]["epochs"] = EPOCHS
    run_id: str = http.post("/v1/training/runs", body)["runId"]
    return run_id


def _others_instead(http, ids: list[str]) -> list[str]:
    """The open runs after the two that lost their jobs have left, and two more have come: a run is tried again a few
    times only."""
    for run_id in ids[:2]:
        http.post(f"/v1/training/runs/{run_id}/cancel", {})
    for run_id in ids[:2]:
        http.follow(f"/v1/training/runs/{run_id}", "phase", {"CANCELLED"})
    return [*ids[2:], *(_start(http) for _ in range(2))]


def _recovery(http, ids: list[str]) -> float:
    jobs = [process for run_id in ids[:2] for process in processes.recorded(running.attempt_of(http.box, run_id))]
    services = [service["name"] for service in http.box.status()["services"]]
    killed = [http.box.process(name) for name in services] + jobs
    began = time.monotonic()
    for process in killed:
        process.send(signal.SIGKILL)
    while not _is_true(http, ids):
        if time.monotonic() - began > 120:
            raise SystemExit("the phases were not true after 120 s")
        time.sleep(0.05)
    return time.monotonic() - began


def _is_true(http, ids: list[str]) -> bool:
    """Whether the killed jobs' runs are in their second attempts, both slots are held, and nothing else moved."""
    found = {run["runId"]: run for run in http.get("/v1/training/runs?phase=open&limit=100")["runs"]}
    if set(found) != set(ids):
        return False
    again = [running.run_of(http, run_id) for run_id in ids[:2]]
    if not all(len(run["attempts"]) == 2 and run["phase"] in {"STARTING_JOB", "QUEUED", "PREPARING", "TRAINING"}
               for run in again):
        return False
    return all(found[run_id]["phase"] == "AWAITING_CAPACITY" for run_id in ids[2:])
