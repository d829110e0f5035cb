"""P20: tokens answered a second by an evaluation, against plain generation in file order with the adapter beside."""

from __future__ import annotations

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from bench.stepper import Stepper

LIMIT = 1.3
TOKENS = 12


def main(argv: list[str]) -> int:
    """Each turn answers the next rows; every answer has the same length, so both arms do the same work."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=24, help="rows answered in one turn")
    options = parser.parse_args(argv)
    base, load = material.base_model(), load_before()
    rows = material.rows("eval", system=True)
    settings = {
        "base": str(base),
        "rows": str(rows),
        "count": options.rows,
        "tokens": TOKENS,
        "threads": options.threads,
    }
    steppers = [Stepper("answering.py", {**settings, "ours": ours}, threads=options.threads) for ours in (True, False)]
    ours, theirs = (
        Arm(name, lambda s=stepper: s.step()["tokens_per_second"])
        for name, stepper in zip(("evaluation", "plain generate"), steppers, strict=True)
    )
    try:
        for stepper in steppers:
            stepper.step()
        interleave(ours, theirs, options.repeats)
        cpu = [sum(reply["cpu"] for reply in stepper.replies[1:]) for stepper in steppers]
        times = f"{cpu[0]:.1f} s against {cpu[1]:.1f} s"
        print(f"  processor time {times}: {cpu[1] / cpu[0]:.2f} times as many tokens a second of it")
        pairs = zip(*(stepper.replies[0]["answers"] for stepper in steppers), strict=True)
        # A random adapter's words are near ties, and a merged weight rounds otherwise than a sum of two.
        print(f"  {sum(a == b for a, b in pairs)} of {options.rows} answers of the first turn are alike")
        return judge("P20", ours, theirs, limit=LIMIT, load=load, max_load=options.max_load, more=True)
    finally:
        for stepper in steppers:
            stepper.close()
