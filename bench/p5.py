"""P5: time of an update with a save after each one, against the same updates without saves."""

from __future__ import annotations

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from tests.engine import tiny

LIMIT = 1.05
BATCH = 4


def main(argv: list[str]) -> int:
    """Whole jobs of SmolLM2-135M; the saves are written while training goes on."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args(argv)
    base, load = material.base_model(), load_before()
    rows = material.rows("train", system=True)
    plan = material.sft_plan(base, [rows], batch=BATCH, steps=options.steps, threads=options.threads)
    sides = [Arm(name, lambda every=every: seconds_an_update(plan, every))
             for name, every in (("a save an update", 1), ("no saves", None))]
    print(f"seconds an update, {BATCH} rows")
    interleave(*sides, options.repeats)
    return judge("P5", *sides, limit=LIMIT, load=load, max_load=options.max_load)


def seconds_an_update(plan: dict, every: int | None) -> float:
    """From the first update's figures to the last one's, so that starting and the final save are left out."""
    attempt = material.attempt_with({**plan, "execution": {**plan["execution"], "saveEvery": every}})
    material.run_job(attempt)
    times = [event["t"] for event in tiny.events_of(attempt, "metrics")]
    return (times[-1] - times[0]) / (len(times) - 1)
