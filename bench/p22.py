"""P22: from the death of every server process, and of two jobs, with 100 open runs to every run's phase being true."""

from __future__ import annotations

import signal
import statistics
import time

from bench.boxes import scratch_box
from bench.measure import arguments, load_before, verdict
from gpu_worker import processes
from optimize_site.appliance.backoff import HEALTHY_SECONDS
from tests.e2e import running
from tests.e2e.tiny_box import descriptor

LIMIT_SECONDS, OPEN_RUNS, SLOTS, STEPS, EPOCHS = 5.0, 100, 2, 20_000, 700


def main(argv: list[str]) -> int:
    """kill -9 for all of them at once. True: the two whose jobs died have jobs again, the others wait as before."""
    parser = arguments(__doc__ or "", repeats=5)
    parser.add_argument("--open", type=int, default=OPEN_RUNS, help="runs that are open (at most a page of the list)")
    options = parser.parse_args(argv)
    load, times = load_before(), []
    with scratch_box("p22") as http:
        training, waiting = _training(http), list[str]()
        for _ in range(options.repeats):
            waiting += [_start(http) for _ in range(options.open - len(training) - len(waiting))]
            for run_id in waiting:
                http.follow(f"/v1/training/runs/{run_id}", "phase", {"AWAITING_CAPACITY"})
            _rest(http)
            times.append(_recovery(http, training, waiting))
            print(f"  every phase of {options.open} open runs is true after {times[-1]:.2f} s", flush=True)
            training, waiting = _others_instead(http, training, waiting)
        for run_id in training + waiting:
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


def _training(http) -> list[str]:
    """Two runs that train, one in each slot."""
    training = [_start(http) for _ in range(SLOTS)]
    for run_id in training:
        running.train_past(http, run_id, 21)
    return training


def _others_instead(http, training: list[str], waiting: list[str]) -> tuple[list[str], list[str]]:
    """The runs that train, and those that wait, once those that lost their jobs have left: a run is tried again a few
    times only."""
    for run_id in training:
        http.post(f"/v1/training/runs/{run_id}/cancel", {})
    for run_id in training:
        http.follow(f"/v1/training/runs/{run_id}", "phase", {"CANCELLED"})
    running.wait_until(lambda: bool(_in_slots(http, waiting)), 120, "the next runs' start")
    training = _in_slots(http, waiting)
    for run_id in training:
        running.train_past(http, run_id, 21)
    return training, [run_id for run_id in waiting if run_id not in training]


def _in_slots(http, waiting: list[str]) -> list[str]:
    found = http.get("/v1/training/runs?phase=open&limit=100")["runs"]
    begun = [run["runId"] for run in found if run["runId"] in waiting and run["phase"] == "TRAINING"]
    return begun if len(begun) == SLOTS else []


def _rest(http) -> None:
    """Until every service has been up for a minute: one that ended sooner is started again after a growing pause."""
    youngest = max(service["since"] for service in http.box.status()["services"])
    time.sleep(max(0.0, youngest + HEALTHY_SECONDS + 1 - time.time()))


def _recovery(http, training: list[str], waiting: list[str]) -> float:
    jobs = [process for run_id in training for process in processes.recorded(running.attempt_of(http.box, run_id))]
    services = [service["name"] for service in http.box.status()["services"]]
    killed = [http.box.process(name) for name in services] + jobs
    began = time.monotonic()
    for process in killed:
        process.send(signal.SIGKILL)
    while not _is_true(http, training, waiting):
        if time.monotonic() - began > 120:
            raise SystemExit("the phases were not true after 120 s")
        time.sleep(0.05)
    return time.monotonic() - began


def _is_true(http, training: list[str], waiting: list[str]) -> bool:
    """Whether the killed jobs' runs are in their second attempts, both slots are held, and nothing else moved."""
    found = {run["runId"]: run for run in http.get("/v1/training/runs?phase=open&limit=100")["runs"]}
    if set(found) != {*training, *waiting}:
        return False
    again = [running.run_of(http, run_id) for run_id in training]
    if not all(len(run["attempts"]) == 2 and run["phase"] in {"STARTING_JOB", "QUEUED", "PREPARING", "TRAINING"}
               for run in again):
        return False
    return all(found[run_id]["phase"] == "AWAITING_CAPACITY" for run_id in waiting)
