"""P1b: processor time of a job under the service, against the same entry run by hand: the cost of being watched."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from gpu_worker.launch import job_python
from tests.engine import tiny

LIMIT = 1.05
STEPS = 500


def main(argv: list[str]) -> int:
    """Whole jobs of at least 500 updates of a tiny model."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args(argv)
    base, load = material.tiny_model(), load_before()
    rows = material.rows("train", system=False)
    plan = material.sft_plan(base, [rows], batch=2, steps=options.steps, threads=1)
    ours = Arm("under the service", lambda: processor_seconds("optimize_child.shepherd", plan, watched=True))
    theirs = Arm("the entry by hand", lambda: processor_seconds("optimize_child.job", plan, watched=False))
    print(f"processor seconds of {options.steps} updates")
    interleave(ours, theirs, options.repeats)
    return judge("P1b", ours, theirs, limit=LIMIT, load=load, max_load=options.max_load)


def processor_seconds(module: str, plan: dict, *, watched: bool) -> float:
    """User and system seconds of the whole process tree of one job."""
    attempt = material.attempt_with({**plan, "first_attempt": watched})
    done = threading.Event()
    worker = threading.Thread(target=watch, args=(attempt, done))
    if watched:
        worker.start()
    process = subprocess.Popen(
        [str(job_python()), "-P", "-m", module, str(attempt)],
        env=material.environment(),
        cwd=attempt,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    done.set()
    if watched:
        worker.join()
    if status or not tiny.events_of(attempt, "finished"):
        raise SystemExit(f"the job in {attempt} did not finish")
    return usage.ru_utime + usage.ru_stime


def watch(attempt: Path, done: threading.Event) -> None:
    """What a device worker does to the attempt's folder meanwhile: renew the control file."""
    while not done.wait(1.0):
        beside = attempt / ".control"
        beside.write_text(
            f'{{"attempt": "bench", "token": 1, "seen_at": {time.time()}, "ask": ""}}'
        )
        beside.replace(attempt / "control.json")
