"""P2: the time of an update over preference pairs, ours against TRL's own trainer of pairs at its defaults.

Ours reads the reference's log-probabilities before the first update; each update is charged its share of that.
"""

from __future__ import annotations

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from bench.stepper import Stepper

LIMIT = 0.7
LOSSES = 1e-4


def main(argv: list[str]) -> int:
    """A/B/B/A over single updates of two processes that wait for each other; their losses must agree."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--no-system", action="store_true", help="rows without their shared system prompt")
    options = parser.parse_args(argv)
    load, (ours, theirs) = load_before(), arms(options, steps=options.repeats + 1)
    try:
        for stepper in (ours, theirs):
            stepper.step()
        sides = [Arm(name, lambda s=s: s.step()["seconds"]) for name, s in (("ours", ours), ("plain TRL", theirs))]
        interleave(*sides, options.repeats)
        worst = max(abs(a["loss"] - b["loss"]) / abs(b["loss"])
                    for a, b in zip(ours.replies, theirs.replies, strict=True))
        print(f"  losses differ by at most {worst:.1e} (bar ≤ {LOSSES:.0e})")
        verdict = judge("P2 (DPO)", *sides, limit=LIMIT, load=load, max_load=options.max_load)
        return verdict if worst <= LOSSES else 1
    finally:
        ours.close()
        theirs.close()


def arms(options, *, steps: int) -> tuple[Stepper, Stepper]:
    """Our job and TRL's trainer, both standing before their first update over the same pairs in the same order."""
    base, pairs = material.base_model(), material.pairs(options.batch * steps, system=not options.no_system)
    plan = material.dpo_plan(base, [pairs], batch=options.batch, steps=steps, threads=options.threads)
    ours = Stepper("our_dpo.py", {"attempt": str(material.attempt_with(plan))}, threads=options.threads)
    settings = {"method": "dpo", "base": str(base), "rows": str(pairs), "batch": options.batch, "steps": steps}
    theirs = Stepper("plain_trainer.py", {**settings, "threads": options.threads}, threads=options.threads)
    return ours, theirs
