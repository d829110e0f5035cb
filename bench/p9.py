"""P9: rows a second of an analysis, against the bare rendering and tokenising of the same rows."""

from __future__ import annotations

from pathlib import Path

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from bench.stepper import Stepper

LIMIT = 0.85


def main(argv: list[str]) -> int:
    """With and without a system prompt that all rows share; the worse of the two verdicts is the bar's."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=4000, help="rows measured in one turn")
    options = parser.parse_args(argv)
    base, load = material.base_model(), load_before()
    verdicts = [compare(base, system, options, load) for system in (True, False)]
    return max(verdicts)


def compare(base: Path, system: bool, options, load: float) -> int:
    """The analysis, all of it from the file to the report, in one process; the other arm has its rows in memory."""
    rows = material.many_rows(options.rows, system=system)
    print(f"rows {'with a shared' if system else 'without a'} system prompt")
    settings = {"base": str(base), "rows": str(rows)}
    steppers = [Stepper("analysing.py", {**settings, "ours": ours}, threads=1) for ours in (True, False)]
    ours, theirs = (
        Arm(name, lambda s=stepper: options.rows / s.step()["seconds"])
        for name, stepper in zip(("analysis", "render and encode_batch"), steppers, strict=True)
    )
    try:
        for stepper in steppers:
            stepper.step()
        interleave(ours, theirs, options.repeats)
        cpu = [sum(reply["cpu"] for reply in stepper.replies[1:]) for stepper in steppers]
        print(f"  processor time {cpu[0]:.1f} s against {cpu[1]:.1f} s: {cpu[1] / cpu[0]:.3f}")
        tokens = {stepper.replies[0]["tokens"] for stepper in steppers}
        print(f"  tokens counted: {' and '.join(map(str, sorted(tokens)))}")
        return judge("P9", ours, theirs, limit=LIMIT, load=load, max_load=options.max_load, more=True)
    finally:
        for stepper in steppers:
            stepper.close()
