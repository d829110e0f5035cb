"""P1: the median time of a training step of ours against a plain TRL script at TRL's defaults, same rows and batch."""

from __future__ import annotations

from pathlib import Path

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from bench.stepper import Stepper

LIMIT = 0.5


def main(argv: list[str]) -> int:
    """Both kinds of rows, one after the other."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rows", choices=["both", "system", "plain"], default="both")
    options = parser.parse_args(argv)
    base = material.base_model()
    kinds = [system for system in (True, False) if options.rows in ("both", "system" if system else "plain")]
    return max(compare(base, options, system=system) for system in kinds)


def compare(base: Path, options, *, system: bool) -> int:
    """A/B/B/A over single steps of two processes that wait for each other."""
    print(f"step time, {options.batch} rows {'with' if system else 'without'} a shared system prompt")
    load = load_before()
    ours, theirs = arms(base, options, system=system, steps=options.repeats + 1)
    try:
        for stepper in (ours, theirs):
            stepper.step()
        sides = [Arm(name, lambda s=s: s.step()["seconds"]) for name, s in (("ours", ours), ("plain TRL", theirs))]
        interleave(*sides, options.repeats)
        cpu = [sum(reply["cpu"] for reply in stepper.replies[1:]) for stepper in (ours, theirs)]
        print(f"  processor time {cpu[0]:.1f} s against {cpu[1]:.1f} s, ratio {cpu[0] / cpu[1]:.3f}")
        return judge("P1", *sides, limit=LIMIT, load=load, max_load=options.max_load)
    finally:
        ours.close()
        theirs.close()


def arms(base: Path, options, *, system: bool, steps: int, strict: bool = False) -> tuple[Stepper, Stepper]:
    """Our job and the plain script, both standing before their first update."""
    rows = material.rows("train", system=system)
    plan = material.sft_plan(base, [rows], batch=options.batch, steps=steps, threads=options.threads, strict=strict)
    ours = Stepper("our_sft.py", {"attempt": str(material.attempt_with(plan))}, threads=options.threads)
    settings = {"method": "sft", "base": str(base), "rows": str(rows), "batch": options.batch, "steps": steps}
    theirs = Stepper("plain_trainer.py", {**settings, "threads": options.threads}, threads=options.threads)
    return ours, theirs
