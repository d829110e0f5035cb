"""P17: from the request for a job to the end of its first update, against a plain script's start to the same."""

from __future__ import annotations

import json
import time
from pathlib import Path

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from bench.stepper import Stepper
from gpu_worker import launch

LIMIT = 0.5
BATCH = 2
PREPARED_SECONDS = 120


def main(argv: list[str]) -> int:
    """The prepared process is ready when the request comes, as it is for every job but a box's first."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tiny", action="store_true", help="a tiny model instead of SmolLM2-135M")
    options = parser.parse_args(argv)
    base = material.tiny_model() if options.tiny else material.base_model()
    rows, load = material.rows("train", system=True, count=64), load_before()
    plan = material.sft_plan(base, [rows], batch=BATCH, steps=2, threads=options.threads)
    home = material.attempt_with(plan).parent.parent
    launch.start_zygote(home / "run")
    await_prepared(home)
    settings = {"base": str(base), "rows": str(rows), "batch": BATCH, "steps": 2, "threads": options.threads}
    ours = Arm("request to first step", lambda: ours_once(home, plan))
    theirs = Arm("plain script", lambda: theirs_once(settings, options.threads))
    try:
        interleave(ours, theirs, options.repeats)
    finally:
        launch.retire_zygote(home / "run")
    return judge("P17", ours, theirs, limit=LIMIT, load=load, max_load=options.max_load)


def await_prepared(home: Path) -> None:
    deadline = time.monotonic() + PREPARED_SECONDS
    while not launch.zygote_ready(home / "run"):
        if time.monotonic() > deadline:
            raise SystemExit("the prepared process did not come up")
        time.sleep(0.1)


def ours_once(home: Path, plan: dict) -> float:
    """From the call that starts the job to the event of its first update."""
    attempt = home / "attempts" / f"attempt-{time.monotonic_ns()}"
    attempt.mkdir()
    (attempt / "plan.json").write_text(json.dumps(plan))
    started = time.perf_counter()
    launch.start_job(attempt)
    log = attempt / "events.jsonl"
    while not (log.exists() and b'"metrics"' in log.read_bytes()):
        if (attempt / "exit.json").exists():
            raise SystemExit((attempt / "stderr.log").read_text()[-3000:])
        time.sleep(0.005)
    elapsed = time.perf_counter() - started
    while not (attempt / "exit.json").exists():
        time.sleep(0.02)
    return elapsed


def theirs_once(settings: dict, threads: int) -> float:
    """From starting Python to the end of the first update."""
    started = time.perf_counter()
    stepper = Stepper("plain_trainer.py", {**settings, "method": "sft"}, threads=threads)
    try:
        stepper.step()
        return time.perf_counter() - started
    finally:
        stepper.close()
